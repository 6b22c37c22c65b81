// Optimizers of pipelines that go ahead of the sums over stages: the run of `single`, whether or
// not they have to be put right.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numeric>

#include "core/scheme/pipeline_group.h"
#include "experiments/runner/plan/planner.h"
#include "peer/fsdp/fsdp.h"
#include "tests/schemes/tiny_models.h"
#include "tests/schemes/tried_mesh.h"
#include "tests/schemes/wrapped.h"

namespace ringside::runner {
namespace {

using testing::reference_of;
using testing::run;
using testing::tiny;
using testing::TriedMesh;

/// 10 units.
ExperimentConfig early_gpt() { return testing::gpt_of_stages(8, 5); }

/// The first step, by whose norms bounds are chosen, is validated while the second one has begun.
RunPlan early_plan(ExperimentConfig config, const TriedMesh& one) {
  config.train.warmup = 0;
  config.mesh.pipeline = one.pipeline;
  config.pipeline.schedule = one.schedule;
  config.pipeline.chunks = one.schedule == "interleaved" ? 2 : 0;
  config.pipeline.post_validation = true;
  return plan_training(config, one.scheme, one.world());
}

/// The steps that all ranks have put right, which are the same.
std::int64_t put_right(const RunRecord& row) {
  for (const RankRecord& rank : row.ranks)
    EXPECT_EQ(rank.pipeline->put_right, row.ranks[0].pipeline->put_right);
  return row.ranks[0].pipeline->put_right;
}

void expect_same_run(const RunRecord& row, const RunRecord& other) {
  EXPECT_EQ(row.parameter_hashes, other.parameter_hashes);
  EXPECT_EQ(row.loss, other.loss);
  EXPECT_EQ(row.skipped_steps, other.skipped_steps);
  ASSERT_EQ(row.evaluations.size(), other.evaluations.size());
  for (std::size_t i = 0; i < row.evaluations.size(); ++i)
    EXPECT_EQ(row.evaluations[i].loss, other.evaluations[i].loss);
}

/// Returns the steps that were put right.
std::int64_t expect_early_run_of_single(const ExperimentConfig& config, const TriedMesh& one) {
  const RunRecord row = run(early_plan(config, one));
  expect_same_run(row, reference_of(config, one.data));
  return put_right(row);
}

/// Adds up, in fp64, the squares of what a step of plain gradient descent with a rate of 1
/// subtracts: the gradient of this rank's stages.
class MeasuresGradients : public testing::Wrapped {
 public:
  using Squares = std::vector<double>;  // by rank of the pipeline
  MeasuresGradients(const RankContext& context, std::unique_ptr<SyncScheme> right, Squares& squares)
      : Wrapped(context, std::move(right)),
        own_(squares[static_cast<std::size_t>(context.pipeline->rank())]) {}

  bool step(const StepInfo& info) override {
    const std::vector<double> before = parameters();
    const bool finite = Wrapped::step(info);
    const std::vector<double> after = parameters();
    for (std::size_t i = 0; i < before.size(); ++i)
      own_ += (before[i] - after[i]) * (before[i] - after[i]);
    return finite;
  }

 private:
  std::vector<double> parameters() {
    std::vector<double> out;
    visit_parameters([&](int, const Unit&, const Tensor& values) {
      out.insert(out.end(), values.data<float>(), values.data<float>() + values.count());
    });
    return out;
  }

  double& own_;
};

/// Squares of the gradients of the first step, by rank of the pipeline.
MeasuresGradients::Squares squares_of_first_step(ExperimentConfig config, TriedMesh one) {
  config.optimizer.kind = "sgd";
  config.optimizer.lr = 1;
  config.optimizer.momentum = config.optimizer.weight_decay = 0;
  config.train.steps = 1;
  config.train.evaluate_every = 0;
  one.scheme = "ddp";
  one.data = 1;  // the gradient is a mean over the same batch
  MeasuresGradients::Squares out(static_cast<std::size_t>(one.pipeline));
  SchemeInfo ddp = find_scheme("ddp");
  ddp.make = [make = ddp.make, &out](const RankContext& context, const Options& options) {
    return std::make_unique<MeasuresGradients>(context, make(context, options), out);
  };
  run(early_plan(config, one), &ddp);
  return out;
}

/// A bound between the norm of the stages of rank 0 and that of the whole model.
double clip_of_others(const ExperimentConfig& config, const TriedMesh& one) {
  const auto squares = squares_of_first_step(config, one);
  const double all = std::accumulate(squares.begin(), squares.end(), 0.0);
  EXPECT_LT(squares[0], 0.9 * all) << "rounding could decide";
  return std::sqrt(std::sqrt(squares[0] * all));
}

std::vector<TriedMesh> early_pipelines() {
  std::vector<TriedMesh> out;
  for (const char* schedule : {"1f1b", "interleaved", "zb_h1", "zb_h2", "zb_v"})
    for (const char* scheme : {"ddp", "fsdp", "zero1"})
      for (const auto& [data, pipeline] : std::vector<std::pair<int, int>>{{1, 2}, {1, 4}, {2, 2}})
        if (data > 1 || std::string(scheme) == "ddp")
          out.push_back({scheme, schedule, pipeline, data});
  return out;
}

std::string name_of_early(const ::testing::TestParamInfo<TriedMesh>& info) {
  const TriedMesh& one = info.param;
  return testing::name_in_tests(
      fmt::format("{}_{}_data_{}_pipeline_{}", one.scheme, one.schedule, one.data, one.pipeline));
}

class EarlyOptimizers : public ::testing::TestWithParam<TriedMesh> {};

TEST_P(EarlyOptimizers, ThatNothingClipsAreRight) {
  ExperimentConfig config = early_gpt();
  config.optimizer.clip_norm = 1e3;
  EXPECT_EQ(expect_early_run_of_single(config, GetParam()), 0);
}

TEST_P(EarlyOptimizers, WaitIfTheFirstRankIsClipped) {
  ExperimentConfig config = early_gpt();
  config.optimizer.clip_norm = 1e-3;
  EXPECT_EQ(expect_early_run_of_single(config, GetParam()), 0);
}

TEST_P(EarlyOptimizers, ArePutRightIfOnlyTheWholeModelIsClipped) {
  ExperimentConfig config = early_gpt();
  config.optimizer.clip_norm = clip_of_others(config, GetParam());
  EXPECT_GT(expect_early_run_of_single(config, GetParam()), 0);
}

INSTANTIATE_TEST_SUITE_P(All, EarlyOptimizers, ::testing::ValuesIn(early_pipelines()),
                         name_of_early);

class EarlyOptimizersWith : public ::testing::TestWithParam<TriedMesh> {
 protected:
  /// Some steps are clipped by the whole model alone.
  static void expect_put_right(ExperimentConfig config) {
    config.optimizer.clip_norm = clip_of_others(config, GetParam());
    EXPECT_GT(expect_early_run_of_single(config, GetParam()), 0);
  }
};

TEST_P(EarlyOptimizersWith, TiedTablesDropoutAndEvaluations) {
  ExperimentConfig config = early_gpt();
  config.model.tied = true;
  config.model.dropout = 0.2;
  config.train.evaluate_every = 2;  // steps before and without an evaluation
  config.train.evaluate_batches = 1;
  expect_put_right(config);
}

TEST_P(EarlyOptimizersWith, Recomputation) {
  ExperimentConfig config = early_gpt();
  config.train.recompute = Recompute::full;
  expect_put_right(config);
}

TEST_P(EarlyOptimizersWith, BatchNorms) {
  ExperimentConfig config = testing::evaluated_resnet();
  config.train.accumulation = 4;
  config.train.reduce = Reduce::last;
  expect_put_right(config);
}

TEST_P(EarlyOptimizersWith, EncodersAndDecoders) {
  ExperimentConfig config = testing::tiny_t5();
  config.train.accumulation = 4;
  config.train.reduce = Reduce::last;
  expect_put_right(config);
}

TEST_P(EarlyOptimizersWith, MastersOf32Bits) {
  ExperimentConfig config = early_gpt();
  config.optimizer.clip_norm = clip_of_others(config, GetParam());
  config.train.precision = Precision::bf16;
  EXPECT_GT(expect_early_run_of_single(config, GetParam()), 0);
}

/// Every micro-batch's gradients are summed over ranks.
TEST_P(EarlyOptimizersWith, SumsOfEveryMicroBatch) {
  ExperimentConfig config = early_gpt();
  config.optimizer.clip_norm = clip_of_others(config, GetParam());
  config.train.reduce = Reduce::every;
  const RunRecord row = run(early_plan(config, GetParam()));
  const std::string& scheme = GetParam().scheme;
  EXPECT_EQ(row.parameter_hashes,
            testing::definition_of(config, scheme, GetParam().data).parameter_hashes);
  EXPECT_GT(put_right(row), 0);
}

/// Of the gradients of the second rank, in fp16 or fp32, one is infinite in the third step.
class OverflowsOnce : public testing::Wrapped {
 public:
  OverflowsOnce(const RankContext& context, std::unique_ptr<SyncScheme> right, std::size_t unit)
      : Wrapped(context, std::move(right)), unit_(unit) {}

  void attach(Model& model) override {
    model_ = &model;
    Wrapped::attach(model);
  }
  void after_backward(std::size_t u, const Pass& pass) override {
    if (u == unit_ && pass.step == 2 && pass.micro_batch == 1) spoil(model_->units[u]->gradient(0));
    Wrapped::after_backward(u, pass);
  }

 private:
  static void spoil(const Tensor& gradient) {
    constexpr float infinity = std::numeric_limits<float>::infinity();
    if (gradient.dtype() == DType::f16)
      gradient.data<fp16>()[0] = to_fp16(infinity);
    else
      gradient.data<float>()[0] = infinity;
  }

  Model* model_ = nullptr;
  std::size_t unit_;
};

/// `unit` is its number in the whole model; it is the first one of the pipeline's second rank.
RunRecord run_that_overflows(const RunPlan& plan, std::size_t unit) {
  SchemeInfo row = find_scheme(plan.scheme);
  row.make = [make = row.make, unit](const RankContext& context,
                                     const Options& options) -> std::unique_ptr<SyncScheme> {
    auto right = make(context, options);
    const bool whole = !context.pipeline;
    if (context.self().worker != 0 || !(whole || context.pipeline->rank() == 1)) return right;
    return std::make_unique<OverflowsOnce>(context, std::move(right), whole ? unit : 0);
  };
  return run(plan, &row);
}

TEST_P(EarlyOptimizersWith, AnOverflowOfALaterRank) {
  ExperimentConfig config = early_gpt();
  config.train.precision = Precision::fp16;
  const RunPlan plan = early_plan(config, GetParam());
  const auto unit = static_cast<std::size_t>(plan.pipeline.cuts[0]);
  const RunRecord row = run_that_overflows(plan, unit);
  config.scheme_options["single"] = SingleOptions{.replicas = GetParam().data};
  const RunRecord single = run_that_overflows(plan_training(config, "single", 1), unit);
  EXPECT_EQ(single.skipped_steps, 1);
  expect_same_run(row, single);
  EXPECT_EQ(put_right(row), 1);
}

/// Steps that are not finite are skipped in fp32 too: they leave running statistics as they were.
TEST_P(EarlyOptimizersWith, ASkippedStepOfBatchNorms) {
  ExperimentConfig config = testing::evaluated_resnet();
  config.train.accumulation = 4;
  config.train.reduce = Reduce::last;
  RunPlan plan = early_plan(config, GetParam());
  plan.train.skip_not_finite = 1;  // planners refuse it with a pipeline
  const auto unit = static_cast<std::size_t>(plan.pipeline.cuts[0]);
  const RunRecord row = run_that_overflows(plan, unit);
  config.scheme_options["single"] = SingleOptions{.replicas = GetParam().data};
  RunPlan alone = plan_training(config, "single", 1);
  alone.train.skip_not_finite = 1;
  const RunRecord single = run_that_overflows(alone, unit);
  EXPECT_EQ(single.skipped_steps, 1);
  expect_same_run(row, single);
  EXPECT_EQ(put_right(row), 1);
}

INSTANTIATE_TEST_SUITE_P(All, EarlyOptimizersWith,
                         ::testing::Values(TriedMesh{}, TriedMesh{"fsdp", "zb_h1", 2, 2},
                                           TriedMesh{"zero1", "zb_h2", 2, 2},
                                           TriedMesh{"zero2", "zb_v", 2, 2},
                                           TriedMesh{"fsdp", "interleaved", 2, 2}),
                         name_of_early);

/// Degrees of sharding that no name of their own stands for, and ways of reading parameters.
TEST(EarlyOptimizersOfFsdp, ArePutRight) {
  using peer::FsdpOptions;
  using peer::Shard;
  ExperimentConfig config = early_gpt();
  config.optimizer.clip_norm = clip_of_others(config, {});
  for (const FsdpOptions& options :
       {FsdpOptions{.shard = Shard::on_demand}, FsdpOptions{.read_in_place = false},
        FsdpOptions{.shard = Shard::on_demand, .read_in_place = false},
        FsdpOptions{.reshard_after_forward = false, .read_in_place = false},
        FsdpOptions{.shard = Shard::no_shard}}) {
    config.scheme_options["fsdp"] = options;
    EXPECT_GT(expect_early_run_of_single(config, {"fsdp", "zb_h2", 2, 2}), 0)
        << name_of(options.shard);
  }
}

/// Rank 1 validates before its first forward: a tied table, which rank 0 has sent, waits for it.
TEST(EarlyOptimizersTest, OfAScheduleByHandArePutRightBeforeTheirFirstForward) {
  const testing::TemporaryFolder folder;
  const TriedMesh one{.schedule =
                          folder.write("late.csv",
                                       "0F0,0SEND_F0,0RECV_B0,0B0,0F1,0SEND_F1,0RECV_B1,0B1\n"
                                       "1RECV_F0,1RECV_F1,1F0,1B0,1SEND_B0,1F1,1B1,1SEND_B1\n")};
  ExperimentConfig config = early_gpt();
  config.model.tied = true;
  config.train.accumulation = 2;
  config.optimizer.clip_norm = clip_of_others(config, one);
  EXPECT_GT(expect_early_run_of_single(config, one), 0);
}

/// With AdamW and parameters of 32 bits: copies of two moments and of the parameters, on the rank
/// that does not know the totals when it updates.
TEST(EarlyOptimizersTest, KeepCopiesOfWhatTheyOverwrite) {
  ExperimentConfig config = early_gpt();
  config.model.width = 64;  // so that the model takes most memory, and most of all after an update
  config.train.global_batch = config.train.accumulation = 4;
  config.optimizer.clip_norm = 1e3;
  const RunPlan early = early_plan(config, {});
  RunPlan waiting = early;
  waiting.pipeline.post_validation = false;
  const RunRecord row = run(early), other = run(waiting);
  const auto bytes = [](const RankRecord& rank) { return rank.at_peak[MemoryKind::optimizer]; };
  EXPECT_EQ(2 * bytes(row.ranks[0]), 5 * bytes(other.ranks[0]));
  EXPECT_EQ(bytes(row.ranks[1]), bytes(other.ranks[1]));
}

/// A rank that goes at its update leaves the others without sums; they do not wait for ever.
class GoesAtUpdate : public testing::Wrapped {
 public:
  using Wrapped::Wrapped;
  bool step(const StepInfo&) override { throw Error("this rank goes"); }
};

TEST(EarlyOptimizersTest, FailWithARankThatGoes) {
  ExperimentConfig config = early_gpt();
  config.optimizer.clip_norm = 1e3;
  config.train.timeout_s = 2;
  SchemeInfo row = find_scheme("ddp");
  row.make = [make = row.make](const RankContext& context,
                               const Options& options) -> std::unique_ptr<SyncScheme> {
    auto right = make(context, options);
    if (context.pipeline->rank() == 0) return right;
    return std::make_unique<GoesAtUpdate>(context, std::move(right));
  };
  EXPECT_THROW(run(early_plan(config, {}), &row), Error);
}

}  // namespace
}  // namespace ringside::runner
