// Our all-reduce over Gloo beside Gloo's own: hosts_bench_gloo RANKS
#include <fmt/format.h>
#include <gloo/allreduce.h>
#include <gloo/math.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/transport/tcp/device.h>
#include <sys/wait.h>

#include <cstdlib>

#include "core/comm/window.h"
#include "tests/bench/hosts_bench.h"
#include "tests/hosts/file_store.h"

namespace {

int run(int rank, int ranks, const std::filesystem::path& folder) {
  using namespace ringside;
  try {
    testing::FileStore store(folder);
    const auto others = folder / "gloo";
    gloo::rendezvous::FileStore theirs(others.string());
    auto device = gloo::transport::tcp::CreateDevice("127.0.0.1");
    const auto context = std::make_shared<gloo::rendezvous::Context>(rank, ranks);
    context->connectFullMesh(theirs, device);
    bench::compare_with(Between::gloo, store, rank, ranks, [&](float* array, std::int64_t count) {
      gloo::AllreduceOptions options(context);
      options.setOutput(array, static_cast<std::size_t>(count));
      options.setReduceFunction(
          static_cast<void (*)(void*, const void*, const void*, std::size_t)>(&gloo::sum<float>));
      gloo::allreduce(options);
    });
    return 0;
  } catch (const std::exception& error) {
    fmt::print(stderr, "rank {}: {}\n", rank, error.what());
    return 1;
  }
}

}  // namespace

int main(int argc, char** argv) {
  const int ranks = argc > 1 ? std::atoi(argv[1]) : 2;
  const ringside::testing::TemporaryFolder folder;
  std::filesystem::create_directory(folder.path() / "gloo");
  for (int r = 0; r < ranks; ++r)
    if (fork() == 0) _exit(run(r, ranks, folder.path()));
  int failed = 0;
  for (int r = 0, status = 0; r < ranks; ++r) {
    wait(&status);
    failed += status != 0;
  }
  return failed;
}
