// Parameter servers between GPUs: frames cross the host, so ZeroMQ's channels stage them.
#include <gtest/gtest.h>

#include "ps/schemes/dp.h"
#include "ps/schemes/ps.h"
#include "tests/cuda/tiny_on_gpus.h"

namespace ringside::ps {
namespace {

struct ServerCase {
  const char* name;
  const char* scheme;
  Options options;
  bool colocated = false, on_the_cpu = false;
};
void PrintTo(const ServerCase& one, std::ostream* out) { *out << one.name; }

class CudaServers : public ::testing::TestWithParam<ServerCase> {
 protected:
  static runner::ExperimentConfig experiment() {
    runner::ExperimentConfig config = testing::tiny_on_gpus("gpt");
    config.scheme_options[GetParam().scheme] = GetParam().options;
    return config;
  }
};

TEST_P(CudaServers, EndWithTheBitsOfSingle) {
  for (const int world : {1, 3}) {
    SCOPED_TRACE(world);
    const runner::ExperimentConfig config = experiment();
    const RunRecord reference = testing::reference_of(config, world);
    const RunRecord row = testing::run(runner::plan_training(config, GetParam().scheme, world));
    EXPECT_LE(testing::largest_difference(row.loss, reference.loss), 1e-5);
    // The CPU's square root and division need not round as the GPU's do, so only servers on the GPU
    // must end with the reference's bits.
    if (!GetParam().on_the_cpu) {
      EXPECT_EQ(row.parameter_hashes, reference.parameter_hashes);
    }
  }
}

TEST_P(CudaServers, TrainInBf16) {
  runner::ExperimentConfig config = experiment();
  config.train.precision = Precision::bf16;
  const RunRecord reference = testing::reference_of(config, 2);
  const RunRecord row = testing::run(runner::plan_training(config, GetParam().scheme, 2));
  EXPECT_LE(testing::largest_difference(row.loss, reference.loss), 1e-2);
  EXPECT_LT(row.loss.back(), row.loss.front());
  // A server that is colocated with the worker has its own copy of the parameters.
  EXPECT_EQ(row.ranks[0].at_peak[MemoryKind::parameter],
            (GetParam().colocated ? 2 : 1) * 2 * row.parameters);
}

INSTANTIATE_TEST_SUITE_P(
    Servers, CudaServers,
    ::testing::Values(
        ServerCase{.name = "dp_colocated",
                   .scheme = "dp",
                   .options = DpOptions{.placement = Placement::colocated},
                   .colocated = true},
        ServerCase{.name = "dp_dedicated",
                   .scheme = "dp",
                   .options = DpOptions{.placement = Placement::dedicated}},
        ServerCase{.name = "ps_dedicated", .scheme = "ps", .options = PsOptions{.servers = 2}},
        ServerCase{.name = "ps_colocated",
                   .scheme = "ps",
                   .options = PsOptions{.servers = 1, .placement = Placement::colocated},
                   .colocated = true},
        ServerCase{.name = "ps_on_the_cpu",
                   .scheme = "ps",
                   .options = PsOptions{.servers = 2, .server_device = ServerDevice::cpu},
                   .on_the_cpu = true},
        ServerCase{.name = "dp_on_the_cpu",
                   .scheme = "dp",
                   .options = DpOptions{.placement = Placement::dedicated,
                                        .server_device = ServerDevice::cpu},
                   .on_the_cpu = true}),
    [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace ringside::ps
