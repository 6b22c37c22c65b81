// If an fp16 gradient is not finite on one rank, all ranks skip the step.
#include <gtest/gtest.h>

#include <limits>

#include "ps/schemes/ps.h"
#include "tests/ps/run.h"
#include "tests/schemes/tiny_runs.h"
#include "tests/schemes/wrapped.h"

namespace ringside::runner {
namespace {

constexpr std::int64_t bad_step = 2;

/// Wraps a scheme. In step `bad_step` it sets one element of a unit's gradient to infinity after
/// the backward of one micro-batch.
class Poisoned : public testing::Wrapped {
 public:
  Poisoned(const RankContext& context, std::unique_ptr<SyncScheme> scheme, std::size_t unit,
           std::int64_t micro_batch)
      : Wrapped(context, std::move(scheme)), unit_(unit), micro_batch_(micro_batch) {}

  void attach(Model& model) override {
    model_ = &model;
    Wrapped::attach(model);
  }
  void after_backward(std::size_t u, const Pass& pass) override {
    if (u == unit_ && pass.step == bad_step && pass.micro_batch == micro_batch_)
      model_->units[u]->gradient(0).data<fp16>()[0] =
          to_fp16(std::numeric_limits<float>::infinity());
    Wrapped::after_backward(u, pass);
  }

 private:
  Model* model_ = nullptr;
  std::size_t unit_;
  std::int64_t micro_batch_;
};

/// Runs `plan` with the scheme of `worker` poisoned (-1: of none). Returns the workers' records.
std::vector<RankRecord> run_poisoned(const RunPlan& plan, int worker, std::size_t unit,
                                     std::int64_t micro_batch) {
  const SchemeInfo& row = find_scheme(plan.scheme);
  const auto make = [&](const RankContext& context) -> std::unique_ptr<SyncScheme> {
    auto scheme = row.make(context, plan.options);
    if (plan.ranks[static_cast<std::size_t>(context.rank)].worker != worker) return scheme;
    return std::make_unique<Poisoned>(context, std::move(scheme), unit, micro_batch);
  };
  const auto serve = [&](const RankContext& context, Model& model, const Loader& loader) {
    return row.serve(context, plan.options, model, loader);
  };
  std::vector<RankRecord> workers;
  const auto results = testing::run_ranks(
      plan, make, serve, [] { return make_cpu_device(1); }, find_device(plan.device.kind).links);
  for (const auto& result : results) {
    EXPECT_EQ(result.error, "");
    if (workers.size() < static_cast<std::size_t>(plan.world)) workers.push_back(result.worker);
  }
  return workers;
}

class OverflowOfOneRank : public testing::SchemeAtWorld {
 protected:
  void expect_nobody_steps(const ExperimentConfig& config, std::int64_t micro_batches) const {
    const RunPlan plan = plan_of(config);
    ASSERT_EQ(plan.train.accumulation, micro_batches);
    auto together = config;
    together.scheme_options["single"] = SingleOptions{.replicas = world()};
    const RunPlan single = plan_training(together, "single", 1);
    const auto free = run_poisoned(single, -1, 0, 0)[0].parameter_hashes;
    for (const int poisoned : {0, world() - 1})
      for (const std::size_t unit : {0, 3}) {
        const auto reference = run_poisoned(single, 0, unit, poisoned * micro_batches)[0];
        const auto workers = run_poisoned(plan, poisoned, unit, 0);
        for (const RankRecord& worker : workers) EXPECT_EQ(worker.skipped_steps, 1);
        EXPECT_EQ(workers[0].parameter_hashes, reference.parameter_hashes);
        EXPECT_NE(workers[0].parameter_hashes, free) << "a step is missing";
      }
  }

  static ExperimentConfig sixteen_bits() {
    auto config = testing::tiny("mlp");
    config.train.precision = Precision::fp16;
    return config;
  }
};

TEST_P(OverflowOfOneRank, SkipsTheStepOnAll) { expect_nobody_steps(sixteen_bits(), 1); }

TEST_P(OverflowOfOneRank, SkipsTheStepOnAllBeforeTheNormsOfLamb) {
  auto config = sixteen_bits();
  config.optimizer.kind = "lamb";
  expect_nobody_steps(config, 1);
}

TEST_P(OverflowOfOneRank, SkipsTheStepOnAllWhateverTheOtherMicroBatches) {
  auto config = sixteen_bits();
  config.train.accumulation = 2;
  config.train.reduce = Reduce::last;
  config.scheme_options["ps"] = ps::PsOptions{.servers = 2};
  expect_nobody_steps(config, 2);
}

INSTANTIATE_TEST_SUITE_P(Registry, OverflowOfOneRank, testing::every_exact_scheme_at({2, 3}),
                         testing::name_of_case);

}  // namespace
}  // namespace ringside::runner
