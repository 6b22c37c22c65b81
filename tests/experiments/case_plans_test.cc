// The plans of comparisons with cases, sweeps and seeds.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "core/base/error.h"
#include "core/plan/same_run.h"
#include "core/scheme/single.h"
#include "experiments/runner/config/cases.h"
#include "experiments/runner/plan/checks.h"
#include "experiments/runner/plan/planned_cases.h"
#include "experiments/runner/plan/planner.h"
#include "experiments/runner/plan/references.h"
#include "ps/schemes/ps.h"
#include "tests/support/complaint.h"
#include "tests/support/small_cluster.h"

namespace ringside::runner {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

Experiment experiment_with_cases() {
  Experiment out;
  out.common.name = "trial";
  out.common.train.global_batch = 16;
  out.common.train.micro_batch = 8;
  out.common.compare.schemes = {};
  out.common.compare.worlds = {2};
  out.common.compare.repeats = 1;
  out.common.compare.all_cores = false;
  return out;
}

void add_case(Experiment& experiment, const std::string& text) {
  experiment.cases.push_back(case_of_text(text));
}
void add_sweep(Experiment& experiment, const std::string& text) {
  add_to_sweep(experiment, parse_assignment(text, "--set " + text));
}

/// One member of each run, as text.
template <class Get>
std::vector<std::string> each(const std::vector<RunPlan>& runs, Get get) {
  std::vector<std::string> out;
  for (const RunPlan& run : runs) out.push_back(fmt::format("{}", get(run)));
  return out;
}
std::vector<std::string> labels(const std::vector<RunPlan>& runs) {
  return each(runs, [](const RunPlan& run) { return run.listing.label; });
}
std::vector<std::string> ids_of(const std::vector<RunPlan>& runs) {
  return each(runs, [](const RunPlan& run) { return run.id; });
}
std::string complaint(const Experiment& experiment) {
  return testing::complaint([&] { plan_comparison(experiment); });
}
std::vector<RunPlan> of_purpose(const std::vector<RunPlan>& runs, Purpose purpose) {
  std::vector<RunPlan> out;
  for (const RunPlan& run : runs)
    if (run.purpose == purpose) out.push_back(run);
  return out;
}
/// The reference of a run among all runs; fails if there is not exactly one case of it.
const RunPlan& reference_of(const RunPlan& run, const std::vector<RunPlan>& runs) {
  const RunPlan* found = nullptr;
  for (const RunPlan& other : runs)
    if (other.scheme == "single" && other.purpose != Purpose::all_cores && other.sums == run.sums &&
        same_training(other, run) && other.repeat == 0) {
      EXPECT_EQ(found, nullptr) << run.id << " has two references";
      found = &other;
    }
  EXPECT_NE(found, nullptr) << run.id << " has no reference";
  return found ? *found : run;
}

TEST(CasePlans, OneSchemeMayStandInTheTableManyTimes) {
  Experiment asked = experiment_with_cases();
  asked.common.compare.schemes = {"single"};
  add_case(asked, "ps");
  add_case(asked, "ps: scheme.ps.servers=1");
  add_case(asked, "ps: scheme.ps.servers=3, label=three servers, worlds=[1, 2]");
  add_case(asked, "ps: scheme.ps.servers=2, scheme.ps.placement=colocated");
  const auto runs = plan_comparison(asked);
  EXPECT_THAT(labels(runs), ElementsAre("single", "ps", "ps (servers=1)", "three servers",
                                        "three servers", "ps (servers=2, placement=colocated)"));
  EXPECT_THAT(ids_of(runs),
              ElementsAre("single-w1-r0", "ps-w2-r0", "ps-servers-1-w2-r0", "three-servers-w1-r0",
                          "three-servers-w2-r0", "ps-servers-2-placement-colocated-w2-r0"));
  EXPECT_EQ(runs[4].options.as<ps::PsOptions>().servers, 3);
  EXPECT_THAT(runs[4].listing.set, ElementsAre(Setting{"scheme.ps.servers", "3"}));
  EXPECT_EQ(runs[4].listing.family, "three servers");
  for (std::size_t i = 0; i < runs.size(); ++i)
    EXPECT_EQ(runs[i].listing.line, static_cast<int>(i));
}

TEST(CasePlans, LinesWithEqualPlansAreMadeOnce) {
  Experiment asked = experiment_with_cases();
  asked.common.compare.schemes = {"single", "ps", "ddp"};
  add_case(asked, "ps: scheme.ps.servers=2, label=mine");
  add_case(asked, "ddp: train.micro_batch=8");
  EXPECT_THAT(labels(plan_comparison(asked)), ElementsAre("single", "mine", "ddp"))
      << "a label that somebody gave stays";
}

TEST(CasePlans, DifferentLinesNeedDifferentNames) {
  Experiment asked = experiment_with_cases();
  asked.common.compare.schemes = {"single"};
  add_case(asked, "ps: scheme.ps.servers=1, label=mine");
  add_case(asked, "ddp: label=mine");
  EXPECT_THAT(complaint(asked), AllOf(HasSubstr("--case ddp: label=mine: case 'mine': "),
                                      HasSubstr("another line is called 'mine' at world 2 too")));
  asked.cases.back().worlds = {1};
  EXPECT_EQ(complaint(asked), "nothing") << "at another world";
}

TEST(CasePlans, EqualLinesHaveOneLabel) {
  Experiment asked = experiment_with_cases();
  add_case(asked, "ps: label=mine");
  add_case(asked, "ps");
  add_case(asked, "ps: scheme.ps.servers=2, label=yours");
  EXPECT_THAT(complaint(asked), HasSubstr("case 'yours': the case labelled 'mine' has the same "
                                          "runs at world 2; leave one case out"));
  asked.cases.back().label = "mine";
  EXPECT_EQ(complaint(asked), "nothing");
  asked.cases.back().label = "yours";
  asked.cases.back().worlds = {1};
  EXPECT_EQ(complaint(asked), "nothing") << "at another world";
}

TEST(CasePlans, LabelsThatDifferInSignsAloneHaveFilesOfTheirOwn) {
  Experiment asked = experiment_with_cases();
  asked.common.compare.schemes = {"single"};
  add_case(asked, "ps: label=mine+");
  add_case(asked, "ddp: label=mine*");
  EXPECT_THAT(ids_of(plan_comparison(asked)),
              ElementsAre("single-w1-r0", "mine-w2-r0", "mine.2-w2-r0"));
}

TEST(CasePlans, KeysWithOneLastPartAreShownWhole) {
  Experiment asked = experiment_with_cases();
  add_case(asked, "single: model.kind=mlp, optimizer.kind=sgd, optimizer.lr=0.5");
  EXPECT_THAT(labels(plan_comparison(asked)),
              ElementsAre("single (model.kind=mlp, optimizer.kind=sgd, lr=0.5)"));
}

TEST(CasePlans, ASweepMultipliesTheLinesThatItConcerns) {
  Experiment asked = experiment_with_cases();
  asked.common.compare.schemes = {"single", "ddp"};
  add_case(asked, "ps: label=mine");
  add_sweep(asked, "scheme.ddp.bucket_mb=[1, 5]");
  add_sweep(asked, "train.recompute=[\"none\", \"full\"]");
  const auto runs = plan_comparison(asked);
  EXPECT_THAT(labels(runs),
              ElementsAre("single (recompute=none)", "single (recompute=full)",
                          "ddp (bucket_mb=1, recompute=none)", "ddp (bucket_mb=1, recompute=full)",
                          "ddp (bucket_mb=5, recompute=none)", "ddp (bucket_mb=5, recompute=full)",
                          "mine (recompute=none)", "mine (recompute=full)"));
  EXPECT_EQ(runs[4].listing.family, "ddp");
  EXPECT_THAT(runs[4].listing.swept, ElementsAre(Setting{"scheme.ddp.bucket_mb", "5"},
                                                 Setting{"train.recompute", "none"}));
  EXPECT_EQ(runs[7].listing.family, "mine");
  EXPECT_EQ(runs[7].train.recompute, Recompute::full);
  EXPECT_EQ(runs[4].id, "ddp-bucket_mb-5-recompute-none-w2-r0");
}

TEST(CasePlans, WhatTheSweepSetsIsNotShownAsTheCases) {
  Experiment asked = experiment_with_cases();
  add_case(asked, "single: train.micro_batch=2, train.steps=9");
  add_sweep(asked, "train.micro_batch=[4, 8]");
  const auto runs = plan_comparison(asked);
  EXPECT_THAT(labels(runs),
              ElementsAre("single (steps=9, micro_batch=4)", "single (steps=9, micro_batch=8)"));
  EXPECT_THAT(runs[0].listing.set, ElementsAre(Setting{"train.steps", "9"}));
  EXPECT_EQ(runs[0].train.accumulation, 4);
}

TEST(CasePlans, TooManyLinesAreRefusedBeforeTheyAreMade) {
  Experiment asked = experiment_with_cases();
  asked.common.compare.schemes = {"ddp"};
  asked.common.compare.worlds = {1, 2};
  std::string list = "1";
  for (int i = 2; i <= 128; ++i) list += ", " + std::to_string(i);
  add_sweep(asked, "scheme.ddp.bucket_mb=[" + list + "]");
  EXPECT_EQ(of_purpose(plan_comparison(asked), Purpose::asked).size(), 256u);
  add_sweep(asked, "train.seed=[1, 2]");
  EXPECT_THAT(complaint(asked), HasSubstr("the comparison would have 512 lines, more than 256; "
                                          "shorten the lists of compare.sweep"));
  for (const char* key : {"train.steps", "train.timeout_s", "optimizer.warmup_steps", "data.mean"})
    add_sweep(asked, key + ("=[" + list + "]"));
  EXPECT_THAT(complaint(asked), HasSubstr("lines and more, more than 256"));
}

TEST(CasePlans, AReferenceOfManySettingsIsCalledAfterTheCase) {
  Experiment asked = experiment_with_cases();
  asked.common.train.micro_batch = 4;
  asked.common.compare.schemes = {};
  add_case(asked,
           "ddp: model.layers=2, model.width=16, model.context=8, optimizer.kind=sgd, "
           "optimizer.momentum=0.9, label=small");
  const auto references = of_purpose(plan_comparison(asked), Purpose::reference);
  EXPECT_THAT(labels(references), ElementsAre("single x2 (of small)"));
  EXPECT_EQ(references[0].id, "single-x2-of-small-r0");
}

TEST(CasePlans, EveryArithmeticHasItsReference) {
  Experiment asked = experiment_with_cases();
  asked.common.train.micro_batch = 4;
  asked.common.compare.schemes = {"ddp", "ps"};
  add_sweep(asked, "train.precision=[\"fp32\", \"bf16\"]");
  add_case(asked, "ddp: model.layers=2, label=small");
  add_case(asked, "ddp: optimizer.lr=0.5");
  const auto runs = plan_comparison(asked);
  const auto references = of_purpose(runs, Purpose::reference);
  EXPECT_THAT(
      labels(references),
      ElementsAre("single x2 (precision=fp32)", "single x2 (precision=bf16)",
                  "single x2 (layers=2, precision=fp32)", "single x2 (layers=2, precision=bf16)",
                  "single x2 (lr=0.5, precision=fp32)", "single x2 (lr=0.5, precision=bf16)"));
  EXPECT_EQ(references[1].id, "single-x2-precision-bf16-r0");
  EXPECT_EQ(references[1].train.precision, Precision::bf16);
  EXPECT_EQ(references[2].model.layers, 2);
  EXPECT_EQ(references[4].optimizer.lr, 0.5);
  for (const RunPlan& run : runs) reference_of(run, runs);
}

TEST(CasePlans, CasesOfSingleAreReferences) {
  Experiment asked = experiment_with_cases();
  asked.common.compare.schemes = {"single", "ddp"};
  add_sweep(asked, "train.precision=[\"fp32\", \"bf16\"]");
  const auto runs = plan_comparison(asked);
  EXPECT_THAT(of_purpose(runs, Purpose::reference), IsEmpty());
  EXPECT_EQ(reference_of(runs[3], runs).train.precision, Precision::bf16);
}

TEST(CasePlans, ADefinitionIsAtNoPointOfTheSweep) {
  Experiment asked = experiment_with_cases();
  add_case(asked, "local_sgd: train.steps=9");
  add_case(asked, "local_sgd: train.steps=9, train.timeout_s=99");
  add_sweep(asked, "train.recompute=[\"none\", \"full\"]");
  const auto definitions = of_purpose(plan_comparison(asked), Purpose::reference);
  ASSERT_EQ(definitions.size(), 1u);
  EXPECT_THAT(definitions[0].listing.swept, IsEmpty());
  EXPECT_THAT(definitions[0].listing.set, ElementsAre(Setting{"train.steps", "9"}))
      << "in both cases";

  asked.common.scheme_options["ps"] =
      ps::PsOptions{.servers = 2, .placement = ps::Placement::colocated};
  const RunPlan alone = plan_definition(plan_training(asked.common, "ps", 2));
  EXPECT_EQ(alone.servers, 0);
  EXPECT_EQ(alone.ranks.at(0).role(), "worker");
}

TEST(CasePlans, OneNetworkOrAnotherIsTheSameTraining) {
  Experiment asked = experiment_with_cases();
  asked.common.device.kind = "sim";
  asked.common.cluster = testing::small_cluster(2);
  asked.common.sim.numerics = true;
  asked.common.train.micro_batch = 4;
  asked.common.compare.schemes = {"ddp"};
  add_sweep(asked, "sim.network_gbit_s=[1, 100]");
  const auto runs = plan_comparison(asked);
  ASSERT_THAT(labels(runs),
              ElementsAre("single x2", "ddp (network_gbit_s=1)", "ddp (network_gbit_s=100)"));
  EXPECT_EQ(runs[1].cluster->nic.gbs, 1 / 8.0);
  EXPECT_EQ(runs[2].cluster->nic.gbs, 100 / 8.0);
  EXPECT_EQ(runs[2].cluster->nic.latency_us, asked.common.cluster->nic.latency_us);
  reference_of(runs[1], runs);
  reference_of(runs[2], runs);
  asked.common.sim.numerics = false;
  EXPECT_THAT(of_purpose(plan_comparison(asked), Purpose::reference), IsEmpty())
      << "what computes nothing needs no reference";
}

TEST(CasePlans, ANetworkNeedsACluster) {
  Experiment asked = experiment_with_cases();
  asked.common.compare.schemes = {"ddp"};
  asked.common.sim.network_gbit_s = 10;
  EXPECT_THAT(complaint(asked), HasSubstr("sim.network_gbit_s = 10 needs a simulated cluster"));
  asked.common.sim.network_gbit_s = -1;
  EXPECT_THAT(complaint(asked), HasSubstr("sim.network_gbit_s = -1 must not be negative"));
  asked = experiment_with_cases();
  asked.common.device.kind = "sim";
  asked.common.compare.schemes = {"ddp"};
  EXPECT_THAT(testing::complaint([&] { plan_training(asked.common, "ddp", 1); }),
              HasSubstr("device.kind = 'sim' needs device.cluster"));
}

TEST(CasePlans, ABatchForEachRankGrowsWithTheWorld) {
  Experiment asked = experiment_with_cases();
  asked.common.train.batch_per_rank = 6;
  asked.common.train.micro_batch = 2;
  asked.common.compare.schemes = {"single", "ddp"};
  asked.common.compare.worlds = {1, 2, 4};
  const auto runs = plan_comparison(asked);
  EXPECT_THAT(ids_of(runs), ElementsAre("single-x2-r0", "single-x4-r0", "single-w1-r0", "ddp-w1-r0",
                                        "ddp-w2-r0", "ddp-w4-r0"));
  EXPECT_THAT(each(runs, [](const RunPlan& run) { return run.train.global_batch; }),
              ElementsAre("12", "24", "6", "6", "12", "24"));
  EXPECT_THAT(each(runs, [](const RunPlan& run) { return run.train.micro_batch; }), Each("2"));
  EXPECT_EQ(&reference_of(runs[5], runs), &runs[1]);
  EXPECT_EQ(&reference_of(runs[3], runs), &runs[2]);
  asked.common.train.batch_per_rank = 7;
  EXPECT_THAT(complaint(asked), HasSubstr("train.batch_per_rank = 7 gives each rank of"));
  asked.common.train.batch_per_rank = most_samples;
  EXPECT_THAT(complaint(asked), HasSubstr("a global batch of more than 16777216 samples"));
  asked.common.train.batch_per_rank = -1;
  EXPECT_THAT(complaint(asked), HasSubstr("train.batch_per_rank = -1 must not be negative"));
}

TEST(CasePlans, ABatchForEachRankGoesWithBatchNormGroups) {
  Experiment asked = experiment_with_cases();
  asked.common.model.kind = "resnet";
  asked.common.data.kind = "synthetic-images";
  asked.common.model.batch_norm_group = 2;
  asked.common.train.batch_per_rank = 4;
  asked.common.compare.schemes = {"ddp"};
  asked.common.compare.worlds = {4};
  const auto runs = plan_comparison(asked);
  ASSERT_THAT(ids_of(runs), ElementsAre("single-x4-g2-r0", "ddp-w4-r0"));
  EXPECT_EQ(runs[0].train.global_batch, 16);
  EXPECT_EQ(runs[0].train.micro_batch, 4) << "the samples of one rank";
  reference_of(runs[1], runs);
}

TEST(CasePlans, EveryLineIsRunWithEachSeed) {
  Experiment asked = experiment_with_cases();
  asked.common.train.micro_batch = 4;
  asked.common.compare.schemes = {"single", "ddp"};
  asked.common.compare.repeats = 2;
  asked.common.compare.seeds = {3, 5};
  const auto runs = plan_comparison(asked);
  EXPECT_THAT(ids_of(runs),
              ElementsAre("single-x2-s3-r0", "single-x2-s5-r0", "single-w1-s3-r0",
                          "single-w1-s5-r0", "ddp-w2-s3-r0", "ddp-w2-s5-r0", "single-w1-s3-r1",
                          "single-w1-s5-r1", "ddp-w2-s3-r1", "ddp-w2-s5-r1"));
  EXPECT_THAT(each(runs, [](const RunPlan& run) { return run.listing.line; }),
              ElementsAre("2", "2", "0", "0", "1", "1", "0", "0", "1", "1"));
  std::set<int> places;
  for (const RunPlan& run : runs) {
    places.insert(run.listing.place);
    EXPECT_EQ(reference_of(run, runs).train.seed, run.train.seed);
  }
  EXPECT_EQ(places.size(), runs.size());
  EXPECT_EQ(*places.rbegin(), 9);
  asked.common.compare.seeds = {5};
  EXPECT_EQ(plan_comparison(asked)[1].id, "single-w1-s5-r0") << "more seeds may follow";
  EXPECT_EQ(plan_comparison(asked)[1].train.seed, 5);
  asked.common.compare.seeds = {5, 5};
  EXPECT_THAT(complaint(asked), HasSubstr("compare.seeds names 5 twice"));
  asked.common.compare.seeds = {-5};
  EXPECT_THAT(complaint(asked), HasSubstr("train.seed = -5 must not be negative"));
  asked.common.compare.seeds = {1, 2};
  add_case(asked, "ddp: train.seed=7");
  EXPECT_THAT(complaint(asked), HasSubstr("leave train.seed out of the line"));
}

TEST(CasePlans, ATargetNeedsEvaluations) {
  Experiment asked = experiment_with_cases();
  asked.common.compare.target_kind = TargetKind::number;
  asked.common.compare.target_loss = 2.5;
  add_case(asked, "ddp: train.evaluate_every=5");
  const auto runs = plan_comparison(asked);
  for (const RunPlan& run : runs) {
    EXPECT_EQ(run.listing.target_kind, TargetKind::number) << run.id;
    EXPECT_EQ(run.listing.target_loss, 2.5) << run.id;
  }
  add_case(asked, "ps");
  EXPECT_THAT(complaint(asked), HasSubstr("--case ps: case 'ps': compare.target_loss needs losses "
                                          "on held-out data, but train.evaluate_every = 0"));
  asked.cases.pop_back();
  asked.common.compare.target_loss = 0;
  EXPECT_THAT(complaint(asked), HasSubstr("compare.target_loss = 0 must be more than 0"));
  asked.common.compare.target_kind = TargetKind::single;
  EXPECT_EQ(plan_comparison(asked)[0].listing.target_kind, TargetKind::single);
  asked.common.device.kind = "sim";
  asked.common.cluster = testing::small_cluster(2);
  EXPECT_THAT(complaint(asked), HasSubstr("needs losses, which a simulation has only with"));
}

TEST(CasePlans, SingleOnAllCoresStandsBesideTheCommonSettingsAlone) {
  Experiment asked = experiment_with_cases();
  asked.common.compare.all_cores = true;
  asked.common.compare.schemes = {"single", "ddp"};
  add_case(asked, "single: model.layers=2");
  add_case(asked, "ddp: model.layers=2, world=4");
  const auto on_all = [&] { return of_purpose(plan_comparison(asked, 16), Purpose::all_cores); };
  ASSERT_THAT(ids_of(on_all()), ElementsAre("single-t2-r0")) << "world 4 trains another model";
  EXPECT_EQ(on_all()[0].model.layers, asked.common.model.layers);
  add_sweep(asked, "train.global_batch=[16, 32]");
  EXPECT_EQ(on_all().size(), 1u);
  asked.sweep.clear();
  add_sweep(asked, "train.global_batch=[32, 64]");
  EXPECT_THAT(on_all(), IsEmpty()) << "no single of the common settings";
}

TEST(CasePlans, ErrorsNameTheCase) {
  Experiment asked = experiment_with_cases();
  add_case(asked, "ddp: train.global_batch=15");
  EXPECT_THAT(complaint(asked),
              HasSubstr("--case ddp: train.global_batch=15: case 'ddp (global_batch=15)': "
                        "train.global_batch = 15 is not divisible by world 2"));
  asked = experiment_with_cases();
  add_case(asked, "single: world=2");
  EXPECT_THAT(complaint(asked), HasSubstr("scheme single runs at world 1 at most, not at 2"));
  asked = experiment_with_cases();
  add_case(asked, "ddp: worlds=[2, 2]");
  EXPECT_THAT(complaint(asked), HasSubstr("worlds names 2 twice"));
  asked = experiment_with_cases();
  EXPECT_THAT(complaint(asked), HasSubstr("compare.schemes is empty"));
}

TEST(CasePlans, InputsOfAllCasesAreChecked) {
  Experiment asked = experiment_with_cases();
  asked.common.data.kind = "synthetic";
  asked.common.model.layers = 1;
  add_case(asked, "ddp");
  EXPECT_NO_THROW(check_inputs(plan_comparison(asked)));
  add_case(asked, "ddp: model.heads=3, label=other heads");
  EXPECT_THAT(testing::complaint([&] { check_inputs(plan_comparison(asked)); }),
              HasSubstr("heads"));
  asked.cases.pop_back();
  add_case(asked, "ddp: data.kind=text, data.path=/nowhere/text, label=other data");
  EXPECT_THAT(testing::complaint([&] { check_inputs(plan_comparison(asked)); }),
              HasSubstr("/nowhere/text"));
}

}  // namespace
}  // namespace ringside::runner
