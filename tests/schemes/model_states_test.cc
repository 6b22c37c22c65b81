// Compares the model states of GPTs with 124M to 175B parameters in a simulated cluster with the
// closed forms of the ZeRO paper (Rajbhandari et al., SC'20). With P parameters in fp32, a rank
// holds (4 + 4 + 8) * P bytes if nothing is sharded, and 1/N of that if all is sharded over N
// ranks.
#include <gtest/gtest.h>

#include "experiments/runner/run/simulation.h"
#include "peer/fsdp/fsdp.h"
#include "tests/schemes/tiny_runs.h"
#include "tests/support/small_cluster.h"

namespace ringside::runner {
namespace {

struct GptShape {
  const char* name;
  std::int64_t layers, heads, width, context;
};

constexpr GptShape shapes[] = {{"124M", 12, 12, 768, 1024},  {"355M", 24, 16, 1024, 1024},
                               {"774M", 36, 20, 1280, 1024}, {"1.5B", 48, 25, 1600, 1024},
                               {"13B", 40, 40, 5120, 2048},  {"175B", 96, 96, 12288, 2048}};

class ModelStates : public ::testing::TestWithParam<std::tuple<GptShape, int>> {
 protected:
  const GptShape& shape() const { return std::get<0>(GetParam()); }
  int world() const { return std::get<1>(GetParam()); }

  RunPlan plan(const std::string& scheme, const peer::FsdpOptions& options = {}) const {
    ExperimentConfig config;
    config.scheme_options["fsdp"] = options;
    config.name = "states";
    config.model = {.kind = "gpt",
                    .layers = shape().layers,
                    .heads = shape().heads,
                    .width = shape().width,
                    .context = shape().context,
                    .vocabulary = 50257};
    config.data.kind = "synthetic";
    config.train.steps = 1;
    config.train.warmup = 0;
    config.train.global_batch = world();
    config.train.recompute = Recompute::full;
    config.device.kind = "sim";
    config.cluster = testing::small_cluster(world());
    config.cluster->device.memory_gb = 1e5;
    config.train.timeout_s = 1e6;  // these devices are slow
    return plan_training(config, scheme, world());
  }

  std::vector<RankRecord> run(const std::string& scheme,
                              const peer::FsdpOptions& options = {}) const {
    return simulate(plan(scheme, options), [](const Progress&) {});
  }

  /// The number of elements by which fsdp pads all units together in groups of `n` ranks.
  std::int64_t padding(std::int64_t n) const {
    const RunPlan run = plan("fsdp");
    const auto device = find_device("sim").make(run, 0, nullptr);
    const Model model = make_model(run.model, *device);
    std::int64_t elements = 0;
    for (const auto& unit : model.units) {
      const std::int64_t count = unit->layout().count();
      elements += (n - count % n) % n;
    }
    return elements;
  }
};

TEST_P(ModelStates, OfDdpAreWholeOnEveryRank) {
  for (const RankRecord& rank : run("ddp")) {
    EXPECT_EQ(rank.at_peak[MemoryKind::parameter], 4 * rank.parameters);
    EXPECT_EQ(rank.at_peak[MemoryKind::gradient], 4 * rank.parameters);
    EXPECT_EQ(rank.at_peak[MemoryKind::optimizer], 8 * rank.parameters);
  }
}

TEST_P(ModelStates, OfFsdpAreTheRanksPartAndItsPadding) {
  const std::int64_t padded = padding(world());
  for (const RankRecord& rank : run("fsdp")) {
    const std::int64_t elements = rank.parameters + padded;  // of all ranks together
    EXPECT_EQ(world() * rank.at_peak[MemoryKind::parameter], 4 * elements);
    EXPECT_EQ(world() * rank.at_peak[MemoryKind::gradient], 4 * elements);
    EXPECT_EQ(world() * rank.at_peak[MemoryKind::optimizer], 8 * elements);
  }
}

/// The peak of full sharding stays below (1/N of the model states + the two largest units +
/// activations) * 1.05, where a unit counts with its parameters and its gradients.
TEST_P(ModelStates, OfFsdpLeaveRoomForTwoUnitsAndActivations) {
  const RunPlan run_plan = plan("fsdp");
  const auto device = find_device("sim").make(run_plan, 0, nullptr);
  const Model model = make_model(run_plan.model, *device);
  std::vector<std::int64_t> units;
  for (const auto& unit : model.units) units.push_back(unit->layout().count());
  std::sort(units.rbegin(), units.rend());
  for (const RankRecord& rank : run("fsdp")) {
    const std::int64_t states = 16 * rank.parameters / world();
    const std::int64_t other = rank.at_peak[MemoryKind::activation] +
                               rank.at_peak[MemoryKind::workspace] + rank.at_peak[MemoryKind::data];
    const auto bound = static_cast<double>(states + 8 * (units[0] + units[1]) + other);
    EXPECT_LT(static_cast<double>(rank.at_peak.total()), 1.05 * bound);
  }
}

class ModelStatesOfDegrees : public ModelStates {};

TEST_P(ModelStatesOfDegrees, AreShardedUpToTheStageAndWithinTheGroup) {
  using peer::Shard;
  struct Degree {
    Shard shard;
    int group;
    bool parameters, gradients;
  };
  const int half = world() / 2;
  for (const Degree& degree :
       {Degree{Shard::no_shard, 0, false, false}, Degree{Shard::shard_optimizer, 0, false, false},
        Degree{Shard::shard_grad_op, 0, false, true}, Degree{Shard::on_demand, 0, true, true},
        Degree{Shard::hybrid_shard, half, true, true},
        Degree{Shard::hybrid_shard_zero2, half, false, true},
        Degree{Shard::hybrid_shard_zero1, half, false, false}}) {
    SCOPED_TRACE(name_of(degree.shard));
    const int ranks = degree.shard == Shard::no_shard ? 1 : degree.group > 0 ? half : world();
    for (const RankRecord& rank :
         run("fsdp", {.shard = degree.shard, .shard_group = degree.group})) {
      const std::int64_t elements = rank.parameters + padding(ranks);  // of all ranks of a group
      const auto part = [&](bool sharded) { return sharded ? elements / ranks : elements; };
      EXPECT_EQ(rank.at_peak[MemoryKind::parameter], 4 * part(degree.parameters));
      EXPECT_EQ(rank.at_peak[MemoryKind::gradient], 4 * part(degree.gradients));
      EXPECT_EQ(rank.at_peak[MemoryKind::optimizer], 8 * part(true));
    }
  }
}

std::string name_of_states(const ::testing::TestParamInfo<ModelStates::ParamType>& info) {
  std::string name = std::get<0>(info.param).name;
  std::replace(name.begin(), name.end(), '.', '_');
  return name + "_on_" + std::to_string(std::get<1>(info.param));
}

INSTANTIATE_TEST_SUITE_P(Gpt, ModelStates,
                         ::testing::Combine(::testing::ValuesIn(shapes),
                                            ::testing::Values(2, 8, 64)),
                         name_of_states);
INSTANTIATE_TEST_SUITE_P(Gpt, ModelStatesOfDegrees,
                         ::testing::Combine(::testing::Values(shapes[0], shapes[4]),
                                            ::testing::Values(2, 8)),
                         name_of_states);

}  // namespace
}  // namespace ringside::runner
