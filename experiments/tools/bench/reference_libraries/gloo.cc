// One rank of Gloo under `ringside bench comm --beside`, over TCP on the loopback interface, which
// is what Gloo has between processes of one host.
#include <fmt/format.h>
#include <gloo/allgather.h>
#include <gloo/allreduce.h>
#include <gloo/alltoall.h>
#include <gloo/barrier.h>
#include <gloo/broadcast.h>
#include <gloo/math.h>
#include <gloo/reduce_scatter.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/transport/tcp/device.h>

#include <cstdio>
#include <memory>
#include <string>

#include "core/base/error.h"
#include "experiments/tools/bench/rank/host_rank.h"

namespace ringside::tools::bench {
namespace {

class GlooRank : public HostRank {
 public:
  /// The ranks find each other by files in `folder`.
  GlooRank(int rank, int ranks, const std::string& folder)
      : HostRank(rank, ranks),
        store_(folder),
        context_(std::make_shared<gloo::rendezvous::Context>(rank, ranks)) {
    gloo::transport::tcp::attr where;
    where.hostname = "localhost";
    context_->connectFullMesh(store_, device_ = gloo::transport::tcp::CreateDevice(where));
  }

  void prepare(const CommOperation& operation, std::int64_t count) override {
    HostRank::prepare(operation, count);
    scatter_.reset();
    if (operation.name == "reduce_scatter")  // in place, and its result at the begin
      scatter_ = std::make_unique<gloo::ReduceScatterHalvingDoubling<float>>(
          context_, std::vector<float*>{other()}, static_cast<int>(this->count()),
          std::vector<int>(static_cast<std::size_t>(context_->size), static_cast<int>(part())));
  }

  void fill() override {
    HostRank::fill();
    if (scatter_) std::copy_n(array(), count(), other());
  }

  void meet() override {
    gloo::BarrierOptions options(context_);
    gloo::barrier(options);
  }

  void call(const std::string&) override {
    if (operation() == "all_reduce") {
      gloo::AllreduceOptions options(context_);
      options.setOutput(array(), count());
      options.setReduceFunction(
          static_cast<void (*)(void*, const void*, const void*, std::size_t)>(&gloo::sum<float>));
      gloo::allreduce(options);
    } else if (operation() == "reduce_scatter") {
      scatter_->run();
    } else if (operation() == "all_gather") {
      gloo::AllgatherOptions options(context_);
      options.setInput(own_part(), part());
      options.setOutput(array(), count());
      gloo::allgather(options);
    } else if (operation() == "broadcast") {
      gloo::BroadcastOptions options(context_);
      options.setOutput(array(), count());
      options.setRoot(0);
      gloo::broadcast(options);
    } else if (operation() == "all_to_all") {
      gloo::AlltoallOptions options(context_);
      options.setInput(array(), count());
      options.setOutput(other(), count());
      gloo::alltoall(options);
    } else {
      throw Error("Gloo has no {} here", operation());
    }
  }

 private:
  gloo::rendezvous::FileStore store_;
  std::shared_ptr<gloo::transport::Device> device_;
  std::shared_ptr<gloo::rendezvous::Context> context_;
  std::unique_ptr<gloo::Algorithm> scatter_;
};

}  // namespace
}  // namespace ringside::tools::bench

int main(int argc, char** argv) {
  if (argc != 5) {
    fmt::print(stderr, "this program is started by `ringside bench comm --beside`\n");
    return 2;
  }
  try {
    const int rank = std::stoi(argv[2]), ranks = std::stoi(argv[3]);
    ringside::tools::bench::GlooRank served(rank, ranks, argv[4]);
    return ringside::tools::bench::serve(std::string(argv[1]), rank, served) ? 0 : 1;
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
}
