// Gloo's own all-reduce.
#pragma once

#include <gloo/allreduce.h>
#include <gloo/math.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/transport/tcp/device.h>

#include <filesystem>
#include <memory>
#include <string>

#include "tests/bench/hosts_bench.h"

namespace ringside::bench {

/// All ranks call this function, with a folder that all see; each with its own address.
inline Library gloo_library(int rank, int ranks, const std::filesystem::path& folder,
                            const std::string& address) {
  std::filesystem::create_directories(folder / "gloo");
  gloo::rendezvous::FileStore store((folder / "gloo").string());
  auto device = gloo::transport::tcp::CreateDevice(address.c_str());
  const auto context = std::make_shared<gloo::rendezvous::Context>(rank, ranks);
  context->connectFullMesh(store, device);
  return {
      InterHostBackend::gloo, [context](float* array, std::int64_t count) {
        gloo::AllreduceOptions options(context);
        options.setOutput(array, static_cast<std::size_t>(count));
        options.setReduceFunction(
            static_cast<void (*)(void*, const void*, const void*, std::size_t)>(&gloo::sum<float>));
        gloo::allreduce(options);
      }};
}

}  // namespace ringside::bench
