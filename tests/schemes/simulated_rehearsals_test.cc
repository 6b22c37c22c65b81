// The memory that rehearsals count, held against simulated runs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "core/device/counting_device.h"
#include "core/plan/mesh.h"
#include "experiments/runner/run/rehearsal.h"
#include "experiments/runner/run/simulation.h"
#include "tests/schemes/simulated.h"
#include "tests/schemes/tiny_runs.h"
#include "tests/support/complaint.h"
#include "tests/support/small_cluster.h"

namespace ringside::runner {
namespace {

using testing::complaint;
using ::testing::HasSubstr;

struct RehearsedMesh {
  std::string scheme = "ddp";
  int pipeline = 2, data = 1;
  std::string schedule = "1f1b";
  std::int64_t chunks = 1;
  Recompute recompute = Recompute::none;
  std::int64_t micro_batches = 4;
  std::string precision = "bf16";
};

std::string text_of(const RehearsedMesh& one) {
  return fmt::format("{}, data {} x pipeline {}, {}, recompute {}, {} micro-batches", one.scheme,
                     one.data, one.pipeline, one.schedule, name_of(one.recompute),
                     one.micro_batches);
}

/// A model whose states, activations and gathered units all count.
RunPlan rehearsed_plan(const RehearsedMesh& one, const std::string& model = "gpt") {
  ExperimentConfig config =
      testing::simulated(testing::tiny(model), testing::small_cluster(one.pipeline * one.data));
  config.sim.numerics = false;
  config.data.kind = model == "t5"     ? "synthetic-pairs"
                     : model == "bert" ? "synthetic-masked"
                                       : "synthetic";
  config.data.path.clear();
  config.model.layers = 8;
  config.model.width = 64;
  config.model.context = 24;
  config.train.steps = 3;
  config.train.warmup = 1;
  config.train.recompute = one.recompute;
  config.train.precision = one.precision == "bf16" ? Precision::bf16 : Precision::fp32;
  config.train.micro_batch = 2;
  config.train.accumulation = one.micro_batches;
  config.train.global_batch = 2 * one.micro_batches * one.data;
  config.mesh.pipeline = one.pipeline;
  config.pipeline.schedule = one.schedule;
  config.pipeline.chunks = one.chunks;
  return plan_training(config, one.scheme, one.pipeline * one.data);
}

std::vector<RankRecord> simulated_ranks(const RunPlan& plan) {
  return simulate(plan, [](const Progress&) {});
}

/// The peaks of a simulated run, by place in the pipeline: of its fullest worker there.
std::vector<MemoryUse> simulated_peaks(const RunPlan& plan) {
  std::vector<MemoryUse> out(static_cast<std::size_t>(plan.mesh.pipeline));
  for (const RankRecord& rank : simulated_ranks(plan)) {
    MemoryUse& most = out[static_cast<std::size_t>(place_in_mesh(plan, rank.rank).pipeline)];
    if (rank.at_peak.total() > most.total()) most = rank.at_peak;
  }
  return out;
}

std::string text_of(const MemoryUse& use) {
  std::string out;
  for (std::size_t k = 0; k < memory_kinds; ++k)
    out +=
        fmt::format(" {} {}", name_of(static_cast<MemoryKind>(k)), use[static_cast<MemoryKind>(k)]);
  return out;
}

void expect_rehearsed(const RehearsedMesh& one, const std::string& model = "gpt") {
  SCOPED_TRACE(text_of(one));
  const RunPlan plan = rehearsed_plan(one, model);
  const std::vector<MemoryUse> rehearsed = rehearse(plan), peaks = simulated_peaks(plan);
  ASSERT_EQ(rehearsed.size(), peaks.size());
  for (std::size_t place = 0; place < peaks.size(); ++place) {
    const auto counted = static_cast<double>(peaks[place].total());
    EXPECT_NEAR(static_cast<double>(rehearsed[place].total()), counted, 0.06 * counted)
        << "place " << place << "\nrehearsed" << text_of(rehearsed[place]) << "\nsimulated"
        << text_of(peaks[place]);
    for (const MemoryKind kind : {MemoryKind::parameter, MemoryKind::optimizer})
      EXPECT_EQ(rehearsed[place][kind], peaks[place][kind]) << name_of(kind);
  }
}

class SimulatedRehearsals : public ::testing::TestWithParam<std::string> {};

TEST_P(SimulatedRehearsals, CountWhatTheLedgersOfTheRunCount) {
  for (const int pipeline : {2, 3, 4})
    for (const int data : {1, 2})
      for (const auto& [schedule, chunks] :
           {std::pair("1f1b", 1), {"gpipe", 1}, {"interleaved", 2}, {"zb_h1", 1}, {"zb_v", 2}})
        for (const Recompute recompute : {Recompute::none, Recompute::full})
          expect_rehearsed({GetParam(), pipeline, data, schedule, chunks, recompute,
                            std::string(schedule) == "interleaved" ? 2 * pipeline : 5});
}

TEST_P(SimulatedRehearsals, CountWhatTheLedgersOfARunWithoutAPipelineCount) {
  for (const int data : {1, 2, 4})
    for (const Recompute recompute : {Recompute::none, Recompute::attention, Recompute::full})
      expect_rehearsed({GetParam(), 1, data, "1f1b", 1, recompute, 3});
}

INSTANTIATE_TEST_SUITE_P(All, SimulatedRehearsals, ::testing::Values("ddp", "fsdp", "zero1"),
                         [](const auto& info) { return info.param; });

/// Far more micro-batches than are under way take no more memory, but for gpipe, which has all of
/// them under way.
TEST(SimulatedRehearsalsTest, CountManyMicroBatchesByAFew) {
  for (const char* schedule : {"1f1b", "zb_h1", "gpipe"})
    expect_rehearsed({"ddp", 3, 1, schedule, 1, Recompute::none, 24});
  expect_rehearsed({"fsdp", 2, 2, "interleaved", 2, Recompute::full, 24});
}

/// Besides the gradients of a stage a worker holds the one that a unit's W makes, and not those
/// that the W's of other units have made.
TEST(SimulatedRehearsalsTest, UnderADividedBackwardOneUnitHasAnotherGradient) {
  const RunPlan plan = rehearsed_plan({"zero1", 2, 2, "zb_h1", 1, Recompute::none, 5});
  CountingDevice device;
  std::int64_t largest = 0;
  for (const auto& unit : make_model(plan.model, device).units)
    largest = std::max(largest, unit->layout().count());
  const std::int64_t bytes = 2 * largest;  // in bf16
  for (const auto& uses : {rehearse(plan), simulated_peaks(plan)})
    for (const MemoryUse& use : uses)
      EXPECT_LE(use[MemoryKind::gradient], use[MemoryKind::parameter] + bytes);
}

TEST(SimulatedRehearsalsTest, CountOtherModels) {
  for (const char* model : {"llama", "t5", "bert"})
    expect_rehearsed({"fsdp", 2, 2, "1f1b", 1, Recompute::none, 4, "fp32"}, model);
}

TEST(SimulatedRehearsalsTest, RefuseWhatTheyDoNotKnow) {
  RunPlan offloading = rehearsed_plan({"fsdp"});
  offloading.train.offload = Offload::optimizer;
  EXPECT_THAT(complaint([&] { rehearse(offloading); }),
              HasSubstr("scheme fsdp: a rehearsal knows neither servers"));
  EXPECT_THAT(complaint([] { rehearse(rehearsed_plan({"ps"})); }),
              HasSubstr("scheme ps: a rehearsal"));
}

}  // namespace
}  // namespace ringside::runner
