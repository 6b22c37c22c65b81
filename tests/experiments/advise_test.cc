// How `advise` chooses: with simulations that cost a closed form, so that each answer is known.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "core/base/error.h"
#include "core/plan/mesh.h"
#include "core/plan/places.h"
#include "experiments/runner/config/experiment_text.h"
#include "experiments/runner/registry/registry.h"
#include "experiments/runner/registry/state_formula.h"
#include "experiments/tools/advise/advice_text.h"
#include "experiments/tools/advise/device_memory.h"
#include "tests/support/small_cluster.h"
#include "tests/support/temporary_folder.h"

namespace ringside::tools::advise {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr double gb = 1e9;

/// A model whose states take `states_gb` on 4 GPUs that multiply in fp32 and bf16.
Question question(double memory_gb, double states_gb = 8) {
  Question out;
  runner::ExperimentConfig& config = out.training;
  config.name = "tiny";
  config.data.kind = "synthetic";
  config.train.global_batch = 16;
  config.device.kind = "sim";
  config.cluster = testing::small_cluster(4);
  config.cluster->device.memory_gb = memory_gb;
  config.cluster->host.memory_gb = 1000;
  config.cluster->device.tflops["bf16"] = 2;
  config.cluster->device.efficiency["bf16"] = config.cluster->device.efficiency["fp32"];
  out.precisions = {"bf16", "fp32"};
  out.reserve_gb = 0;
  out.seconds = 100;
  out.processes = 2;
  complete(out);
  constexpr double bytes_each = 16;
  out.parameters = static_cast<std::int64_t>(gb * states_gb / bytes_each);
  return out;
}

/// Each sample takes a device 10 ms in bf16 and 20 in fp32, a third more with recomputation, and
/// each micro-batch 2 ms more. A sample has 1 GB of activations, a quarter of it with
/// recomputation. `exposed_ms` is the time of a step that waits for others.
struct Devices {
  const Question& asked;
  std::function<double(const RunPlan&)> exposed_ms = [](const RunPlan&) { return 1.0; };
  std::vector<std::string> simulated{};
  std::int64_t most_stages = 1000;  // simulations of more take too long

  /// A stage has an equal part of the states, of the compute and of the activations; its forward
  /// and both halves of backward take a third each.
  runner::RunOutcome run_mesh(const RunPlan& plan) {
    runner::RunOutcome out;
    RunRecord& row = out.row;
    row.plan = plan;
    const auto ranks = static_cast<double>(plan.mesh.pipeline);
    const auto count = static_cast<double>(plan.train.accumulation);
    const auto replicas = static_cast<double>(plan.world) / ranks;
    const double samples = static_cast<double>(plan.train.global_batch) / replicas / count;
    const bool again = plan.train.recompute == Recompute::full;
    const double stage_ms =
        (samples * (products_dtype(plan) == "fp32" ? 20 : 10) * (again ? 4.0 / 3 : 1) + 2) / ranks;
    const auto parameters =
        static_cast<std::int64_t>(static_cast<double>(asked.parameters) / ranks);
    const double states = runner::state_formula(data_view(plan, 0), parameters)->total() / gb;
    const double element = products_dtype(plan) == "bf16" ? 2 : 4;
    double most_gb = 0;
    for (int r = 0; r < plan.world; ++r) {
      const int place = place_in_mesh(plan, r).pipeline;
      const std::int64_t under_way = std::min(plan.train.accumulation, plan.mesh.pipeline - place);
      const double activations =
          static_cast<double>(under_way) * samples * (again ? 0.25 : 1) / ranks;
      RankRecord& rank = row.ranks.emplace_back();
      rank.rank = r;
      rank.at_peak[MemoryKind::parameter] =
          static_cast<std::int64_t>(element * static_cast<double>(parameters));
      rank.at_peak[MemoryKind::activation] = static_cast<std::int64_t>(gb * activations);
      rank.pipeline = {.stages = {{.stage = place,
                                   .forward_ms = stage_ms / 3,
                                   .input_gradient_ms = stage_ms / 3,
                                   .weight_gradient_ms = stage_ms / 3,
                                   .most_under_way = under_way}}};
      most_gb = std::max(most_gb, states + activations);
    }
    row.time_ms.compute = count * stage_ms;
    row.time_ms.exposed = (ranks - 1) * stage_ms + exposed_ms(plan);
    row.step_ms.median = row.time_ms.compute + row.time_ms.exposed;
    row.samples_per_s = 1e3 * static_cast<double>(plan.train.global_batch) / row.step_ms.median;
    if (most_gb > plan.cluster->device.memory_gb) {
      row.status = "failed";
      row.error = out_of_memory("sim gpu", 1, MemoryKind::activation, {}, "full").what();
    }
    if (plan.mesh.pipeline > most_stages) {
      row.status = "failed";
      row.error = runner::out_of_time;
    }
    return out;
  }

  /// By the closed form of run_mesh().
  std::vector<MemoryUse> rehearse(const RunPlan& plan) const {
    const auto ranks = static_cast<double>(plan.mesh.pipeline);
    const double again = plan.train.recompute == Recompute::full ? 0.25 : 1;
    const auto states = runner::state_formula(
        data_view(plan, 0),
        static_cast<std::int64_t>(static_cast<double>(asked.parameters) / ranks));
    std::vector<MemoryUse> out;
    for (int place = 0; place < plan.mesh.pipeline; ++place) {
      MemoryUse& use = out.emplace_back();
      use[MemoryKind::parameter] = static_cast<std::int64_t>(states->parameters);
      use[MemoryKind::gradient] = static_cast<std::int64_t>(states->gradients);
      use[MemoryKind::optimizer] = static_cast<std::int64_t>(states->optimizer);
      const auto under_way = static_cast<double>(
          std::min(plan.train.accumulation, plan.mesh.pipeline - place) * plan.train.micro_batch);
      use[MemoryKind::activation] = static_cast<std::int64_t>(gb * again * under_way / ranks);
    }
    return out;
  }

  runner::RunOutcome run(const RunPlan& plan) {
    if (has_pipeline(plan)) return run_mesh(plan);
    runner::RunOutcome out;
    RunRecord& row = out.row;
    row.plan = plan;
    const auto count = static_cast<double>(plan.train.accumulation);
    const auto share = static_cast<double>(plan.train.global_batch / plan.world);
    const bool again = plan.train.recompute == Recompute::full;
    row.time_ms.compute =
        share * (products_dtype(plan) == "fp32" ? 20 : 10) * (again ? 4.0 / 3 : 1) + 2 * count;
    const auto formula = runner::state_formula(plan, asked.parameters);
    const double offloaded = 4 * static_cast<double>(asked.parameters);
    const double states = (formula ? formula->total() : offloaded) / gb;
    const double held = states + share / count * (again ? 0.25 : 1);
    row.ranks.resize(plan.ranks.size());
    for (std::size_t r = 0; r < row.ranks.size(); ++r) row.ranks[r].rank = static_cast<int>(r);
    row.ranks[0].at_peak[MemoryKind::parameter] = static_cast<std::int64_t>(gb * states);
    row.ranks[0].at_peak[MemoryKind::activation] = static_cast<std::int64_t>(gb * (held - states));
    constexpr double offload_ms = 20;
    row.time_ms.exposed = plan.world > 1 ? exposed_ms(plan) : 0;
    if (plan.train.offload != Offload::none) row.time_ms.exposed += offload_ms;
    row.step_ms.median = row.time_ms.compute + row.time_ms.exposed;
    row.samples_per_s = 1e3 * static_cast<double>(plan.train.global_batch) / row.step_ms.median;
    if (held > plan.cluster->device.memory_gb) {
      row.status = "failed";
      row.error = out_of_memory("sim gpu", 1, MemoryKind::activation, {}, "full").what();
    }
    if (plan.world > 1) simulated.push_back(plan.scheme);
    return out;
  }
  runner::Simulate simulate() {
    return [this](const std::vector<RunPlan>& plans, double) {
      std::vector<runner::RunOutcome> out;
      for (const RunPlan& plan : plans) out.push_back(run(plan));
      return out;
    };
  }
};

Advice ask(const Question& question, Devices& devices) {
  const runner::Simulate simulate = devices.simulate();
  const runner::Rehearse rehearse = [&](const RunPlan& plan) { return devices.rehearse(plan); };
  return search(
      question, simulate, rehearse, [] { return 0.0; }, [](const Considered&) {});
}

TEST(Advise, TheSimplestOfThoseThatAreAsFast) {
  const Question asked = question(100);
  Devices devices{asked};
  devices.exposed_ms = [](const RunPlan& plan) { return plan.scheme == "ddp" ? 1.0 : 0.5; };
  const Advice advice = ask(asked, devices);
  ASSERT_FALSE(advice.ranked.empty());
  EXPECT_EQ(label_of(advice.ranked.front().candidate), "ddp, bf16");
  EXPECT_DOUBLE_EQ(advice.ranked.front().step_ms, 43);
  EXPECT_THAT(reason_of(asked, advice), HasSubstr("'zero1, bf16' is 1.2% faster"));
}

/// 8 GPUs for a batch of 4: without a pipeline most of them would have no sample.
Question small_batch(double memory_gb) {
  Question out = question(memory_gb);
  out.training.train.global_batch = 4;
  out.training.model.layers = 6;
  out.training.cluster = testing::small_cluster(8);
  out.training.cluster->device = question(memory_gb).training.cluster->device;
  out.worlds.clear();
  const std::int64_t parameters = out.parameters;
  complete(out);
  out.parameters = parameters;
  return out;
}

TEST(Advise, AMeshWhereNothingFitsThatLeavesTheModelWhole) {
  const Question asked = small_batch(5);
  Devices devices{asked};
  const Advice advice = ask(asked, devices);
  ASSERT_FALSE(advice.ranked.empty());
  EXPECT_EQ(label_of(advice.ranked.front().candidate),
            "ddp, mesh data 4 x pipeline 2 (1f1b), bf16");
  const RunPlan plan = plan_of(asked, advice.ranked.front().candidate);
  EXPECT_EQ(plan.mesh.pipeline, 2);
  EXPECT_EQ(plan.mesh.data, 4);
  EXPECT_THAT(advice_text(asked, advice, 3, false), HasSubstr("mesh data 4 x pipeline 2"));
  EXPECT_THAT(reason_of(asked, advice),
              AllOf(HasSubstr("without a pipeline 4 samples do not divide among 8 workers; "),
                    Not(HasSubstr("cannot be run"))));
}

TEST(Advise, AMeshThatRecomputesWhereActivationsDoNotFit) {
  // fsdp: 8 GB of states over 8 GPUs, and 0.5 GB of activations, or a quarter of that.
  const Question asked = small_batch(1.2);
  Devices devices{asked};
  const Advice advice = ask(asked, devices);
  ASSERT_FALSE(advice.ranked.empty());
  EXPECT_EQ(label_of(advice.ranked.front().candidate),
            "fsdp, mesh data 4 x pipeline 2 (1f1b), bf16, recompute full");
}

/// 8 GB of states, of which a sample in a stage of 2 has 0.5 GB of activations.
TEST(Advise, NamesTheStageAndWhatFillsItsMemory) {
  Question asked = small_batch(1.2);
  asked.worlds = {4, 8};
  asked.meshes = true;
  Devices devices{asked};
  const Advice advice = ask(asked, devices);
  std::vector<std::string> reasons;
  for (const Considered& one : advice.others)
    if (one.outcome == Outcome::no_memory && one.candidate.precision == "bf16")
      reasons.push_back(label_of(one.candidate) + ": " + one.why);
  EXPECT_THAT(
      reasons,
      Contains("ddp, mesh data 4 x pipeline 2 (1f1b), bf16: stage 0 takes 4.5 GB of a device: "
               "3.0 GB of optimizer state, 500.0 MB of parameters, 500.0 MB of gradients, 500.0 MB "
               "of activations"));
  EXPECT_THAT(reasons,
              Contains("ddp, bf16: its model states alone take 8.0 GB of a device: 6.0 GB of "
                       "optimizer state, 1.0 GB of parameters, 1.0 GB of gradients"));
}

/// Where model states alone are too large nothing is rehearsed.
TEST(Advise, RehearsesNoMeshWhoseStatesAreTooLarge) {
  Question asked = small_batch(1.2);
  Devices devices{asked};
  for (std::int64_t& parameters : asked.unit_parameters) parameters = asked.parameters;
  const runner::Simulate simulate = devices.simulate();
  int rehearsed = 0;
  const Advice advice = search(
      asked, simulate,
      [&](const RunPlan& plan) {
        ++rehearsed;
        return devices.rehearse(plan);
      },
      [] { return 0.0; }, [](const Considered&) {});
  EXPECT_EQ(rehearsed, 0);
  EXPECT_THAT(advice.others,
              Contains(::testing::Field(&Considered::why, HasSubstr(" takes at least "))));
}

TEST(Advise, NamesAllStagesOfAWorker) {
  FullestWorker worker{.place = 1};
  worker.use[MemoryKind::activation] = 2'500'000'000;
  worker.use[MemoryKind::parameter] = 7'000'000'000;
  worker.use[MemoryKind::data] = 1'000'000;
  EXPECT_EQ(stage_memory_text({.ranks = 4, .schedule = "interleaved", .chunks = 2}, worker),
            "stages 1 and 5 take 9.5 GB of a device: 7.0 GB of parameters, 2.5 GB of activations");
  worker.use[MemoryKind::activation] = 0;
  worker.partial = true;
  EXPECT_EQ(stage_memory_text({.ranks = 4, .schedule = "1f1b"}, worker),
            "stage 1 takes at least 7.0 GB of a device: 7.0 GB of parameters");
}

/// No way that leaves the model whole fits: fsdp at world 4 has 0.25 GB of gradients where the rest
/// is offloaded, and a sample 0.25 GB of activations that are recomputed. In a mesh of 4 x 8 a
/// worker has 0.25 GB of states, and a sample 0.125 GB of activations.
TEST(Advise, SaysWhyOnlyMeshesFit) {
  Question asked = small_batch(0.45);
  asked.training.cluster->devices = 32;
  asked.worlds = {4, 32};
  asked.meshes = true;
  Devices devices{asked};
  const Advice advice = ask(asked, devices);
  ASSERT_FALSE(advice.ranked.empty());
  for (const Considered& one : advice.ranked) EXPECT_EQ(one.candidate.family.stages.ranks, 8);
  EXPECT_THAT(advice_text(asked, advice, 3, false),
              HasSubstr("Only meshes fit. Of all ways that leave the model whole, with "
                        "recomputation and offload too, the smallest is 'fsdp, bf16, recompute "
                        "full, offload optimizer and parameters' at world 4: with one sample at a "
                        "time it takes 500.0 MB of a device: 250.0 MB of gradients, 250.0 MB of "
                        "activations; a device has 450.0 MB, of which 0 bytes stay free; without a "
                        "pipeline 4 samples do not divide among 32 workers.\n"));
  const Question roomy = small_batch(100);
  Devices large{roomy};
  EXPECT_THAT(advice_text(roomy, ask(roomy, large), 3, false), Not(HasSubstr("Only meshes fit")));
}

TEST(Advise, RemarksRecomputationUnderADividedBackward) {
  const Question asked = small_batch(100);
  for (const Family& family : mesh_families_of(asked, 8, 8)) {
    Advice advice{.ranked = {{.candidate = {.family = family,
                                            .world = 8,
                                            .precision = "bf16",
                                            .recompute = Recompute::full},
                              .outcome = Outcome::simulated,
                              .step_ms = 1}}};
    if (family.stages.ranks > 2 || family.stages.chunks > 1) continue;
    const std::string text = advice_text(asked, advice, 1, false);
    EXPECT_EQ(text.find("saves little memory under zb_h1") != std::string::npos,
              family.stages.schedule == "zb_h1")
        << text;
  }
}

TEST(Advise, WorldsThatNeedAMeshWhereMeshesAreAskedFor) {
  for (const bool meshes : {false, true}) {
    Question asked = small_batch(100);
    asked.worlds = {1, 3, 4, 8};
    asked.meshes = meshes;
    complete(asked);
    EXPECT_EQ(asked.worlds,
              (meshes ? std::vector<std::int64_t>{1, 4, 8} : std::vector<std::int64_t>{1, 4}));
  }
}

TEST(Advise, MeshesWithoutThoseWhoseStagesTakeTooLong) {
  const Question asked = small_batch(5);
  Devices devices{asked};
  devices.most_stages = 2;
  const Advice advice = ask(asked, devices);
  ASSERT_FALSE(advice.ranked.empty());
  EXPECT_EQ(label_of(advice.ranked.front().candidate),
            "ddp, mesh data 4 x pipeline 2 (1f1b), bf16");
  int late = 0;
  for (const Considered& one : advice.others)
    if (one.candidate.family.stages.ranks > 2) {
      EXPECT_NE(one.outcome, Outcome::simulated);
      late += one.outcome == Outcome::not_tried;
    }
  EXPECT_GT(late, 0);
}

TEST(Advise, NoMeshWhereItIsNotNeeded) {
  const Question asked = question(100);
  Devices devices{asked};
  const Advice advice = ask(asked, devices);
  for (const auto* list : {&advice.ranked, &advice.others})
    for (const Considered& one : *list) EXPECT_EQ(one.candidate.family.stages.ranks, 1);
}

TEST(Advise, AFasterMeshWhereItIsAskedFor) {
  Question asked = question(100);
  Devices devices{asked};
  devices.exposed_ms = [](const RunPlan& plan) { return has_pipeline(plan) ? 0.0 : 20.0; };
  EXPECT_EQ(label_of(ask(asked, devices).ranked.front().candidate), "ddp, bf16");
  asked.meshes = true;
  const Advice advice = ask(asked, devices);
  EXPECT_EQ(label_of(advice.ranked.front().candidate),
            "ddp, mesh data 2 x pipeline 2 (1f1b), bf16, 8 micro-batches");
  EXPECT_DOUBLE_EQ(advice.ranked.front().step_ms, 9 * (10 + 2) / 2) << "8 micro-batches, bubble 1";
  EXPECT_THAT(reason_of(asked, advice), HasSubstr("'ddp, bf16' is 15% slower"));
}

TEST(Advise, AFasterSchemeOverASimplerOne) {
  const Question asked = question(100);
  Devices devices{asked};
  devices.exposed_ms = [](const RunPlan& plan) { return plan.scheme == "zero2" ? 1.0 : 9.0; };
  const Advice advice = ask(asked, devices);
  EXPECT_EQ(label_of(advice.ranked.front().candidate), "zero2, bf16");
  EXPECT_THAT(reason_of(asked, advice), HasSubstr("'ddp, bf16' is 19% slower"));
}

/// The simplest candidate is the best in two respects: without recomputation, and without offload.
TEST(Advise, NamesACaseOnce) {
  const Question asked = question(100);
  Considered advised, plain;
  advised.candidate = {.family = {.scheme = "fsdp", .label = "fsdp", .options = {}},
                       .simplicity = 1,
                       .world = 4,
                       .precision = "bf16",
                       .recompute = Recompute::full,
                       .offload = Offload::optimizer};
  plain.candidate = {
      .family = advised.candidate.family, .simplicity = 1, .world = 4, .precision = "bf16"};
  advised.outcome = plain.outcome = Outcome::simulated;
  advised.samples_per_s = 110;
  plain.samples_per_s = 100;
  Advice advice{.ranked = {advised, plain}};
  EXPECT_EQ(reason_of(asked, advice), "'fsdp, bf16' is 10% slower");
  advice.bounds = {.low_ms = 90, .high_ms = 120};
  EXPECT_EQ(reason_of(asked, advice), "'fsdp, bf16' is 10% slower (not told apart)");
}

TEST(Advise, SimulatesNothingWhoseComputeAloneIsTooLong) {
  const Question asked = question(100);
  Devices devices{asked};
  const Advice advice = ask(asked, devices);
  // In fp32 compute takes 82 ms, in bf16 a step 43.
  EXPECT_THAT(advice.others,
              Contains(AllOf(::testing::Field(&Considered::outcome, Outcome::cannot_win),
                             ::testing::Field(&Considered::bound_ms, 82.0))));
  for (const Considered& one : advice.ranked) EXPECT_EQ(one.candidate.precision, "bf16");
  EXPECT_LE(devices.simulated.size(), 12u);
}

TEST(Advise, DividesTheModelWhereItDoesNotFitWhole) {
  const Question asked = question(9, 16);  // a shard has 4 GB, 4 samples have 4
  Devices devices{asked};
  const Advice advice = ask(asked, devices);
  EXPECT_EQ(label_of(advice.ranked.front().candidate), "fsdp, bf16");
  EXPECT_THAT(reason_of(asked, advice), HasSubstr("'ddp, bf16, offload optimizer' is 47% slower"));
  EXPECT_NEAR(advice.ranked.front().needs_gb, 8, 1e-6);
}

TEST(Advise, TakesMoreMicroBatchesBeforeRecomputation) {
  const Question asked = question(7, 16);  // 3 GB for activations: 2 samples at once
  Devices devices{asked};
  const Advice advice = ask(asked, devices);
  EXPECT_EQ(label_of(advice.ranked.front().candidate), "fsdp, bf16, 2 micro-batches");
}

TEST(Advise, RecomputesWhereNothingElseFits) {
  const Question asked = question(4.6, 16);  // a sample has 1 GB, and 0.25 with recomputation
  Devices devices{asked};
  const Advice advice = ask(asked, devices);
  const Candidate& advised = advice.ranked.front().candidate;
  EXPECT_EQ(advised.recompute, Recompute::full);
  EXPECT_EQ(advised.offload, Offload::none);
  EXPECT_EQ(advised.micro_batches, 2);
  EXPECT_THAT(reason_of(asked, advice), HasSubstr("without recomputation it"));
}

TEST(Advise, SaysWhatIsMissingIfNothingFits) {
  const Question asked = question(4, 1600);
  Devices devices{asked};
  const Advice advice = ask(asked, devices);
  EXPECT_TRUE(advice.ranked.empty());
  EXPECT_TRUE(devices.simulated.empty());
  EXPECT_THAT(advice_text(asked, advice, 8, true),
              AllOf(HasSubstr("NOTHING FITS"), HasSubstr("does not fit")));
}

TEST(Advise, LeavesFreeWhatIsReserved) {
  Question asked = question(20.5, 16);  // ddp takes 16 + 4
  Devices devices{asked};
  EXPECT_EQ(label_of(ask(asked, devices).ranked.front().candidate), "ddp, bf16");
  asked.reserve_gb = 1;
  EXPECT_NE(label_of(ask(asked, devices).ranked.front().candidate), "ddp, bf16");
}

TEST(Advise, EndsInTime) {
  const Question asked = question(100);
  Devices devices{asked};
  double clock = 0;
  const runner::Simulate inner = devices.simulate();
  const runner::Simulate slow = [&](const std::vector<RunPlan>& plans, double seconds) {
    clock += 40;
    return inner(plans, seconds);
  };
  const Advice advice = search(
      question(100), slow, [&](const RunPlan& plan) { return devices.rehearse(plan); },
      [&] { return clock; }, [](const Considered&) {});
  EXPECT_LE(devices.simulated.size(), 4u);
  EXPECT_THAT(advice.others, Contains(::testing::Field(&Considered::outcome, Outcome::not_tried)));
}

TEST(Advise, FewestHoursOfDevicesMeetADeadline) {
  Question asked = question(100);
  Devices devices{asked};
  // Two machines of 4 are only 1.3 times as fast as one.
  devices.exposed_ms = [](const RunPlan& plan) { return plan.world == 8 ? 11.0 : 1.0; };
  asked.training.cluster->machines = 2;
  asked.samples = 1e6;
  for (const auto& [deadline_h, world] : {std::pair(0.8, 4), {0.6, 8}, {0.1, 8}}) {
    asked.deadline_h = deadline_h;
    asked.worlds.clear();
    complete(asked);
    const Advice advice = ask(asked, devices);
    EXPECT_EQ(advice.ranked.front().candidate.world, world) << deadline_h;
    EXPECT_EQ(advice_text(asked, advice, 3, false).find("NOTHING MEETS") != std::string::npos,
              deadline_h < 0.5);
  }
  asked.price = 2;
  const Advice advice = ask(asked, devices);
  const double a_million = 1e6 / advice.ranked.front().samples_per_s / 3600 * 8 * 2;
  EXPECT_THAT(advice_text(asked, advice, 3, false), HasSubstr(fmt::format("{:.2f}", a_million)));
}

TEST(AdviseQuestion, RefusesWhatCannotBeAsked) {
  const auto refusal = [](const auto& change) -> std::string {
    Question asked = question(100);
    change(asked);
    try {
      complete(asked);
    } catch (const Error& error) {
      return error.what();
    }
    return {};
  };
  EXPECT_THAT(refusal([](Question& asked) { asked.training.train.global_batch = 17; }),
              HasSubstr("17 samples cannot be divided equally among 4"));
  EXPECT_THAT(refusal([](Question& asked) { asked.precisions = {"fp16"}; }),
              HasSubstr("device 'gpu' multiplies in bf16, fp32"));
  EXPECT_THAT(refusal([](Question& asked) { asked.worlds = {8}; }), HasSubstr("has 4 devices"));
}

TEST(AdviseQuestion, FindsDataForEveryPreset) {
  for (const auto& [preset, data] : {std::pair("gpt2", "synthetic"),
                                     {"bert-base", "synthetic-masked"},
                                     {"t5-small", "synthetic-pairs"},
                                     {"resnet-18-cifar", "synthetic-images"},
                                     {"smolvlm-2b", "synthetic-captions"}}) {
    const runner::ExperimentConfig config = training_of_preset(
        preset, {"device.kind=sim",
                 std::string("device.cluster=") + RINGSIDE_CLUSTERS + "/rtx-4090-1x8.toml"});
    EXPECT_EQ(config.data.kind, data) << preset;
  }
  EXPECT_THROW(training_of_preset("gpt-2", {}), Error);
}

TEST(AdviseCandidate, SetsEachKeyOnce) {
  const Question asked = question(100);
  const std::vector<Family> families = families_of(asked, 4);
  const auto ps = std::find_if(families.begin(), families.end(),
                               [](const Family& family) { return family.scheme == "ps"; });
  ASSERT_NE(ps, families.end());
  const runner::CaseConfig one =
      case_of(asked, {.family = *ps, .world = 4, .tuned = {{"scheme.ps.partition_mb", "16"}}});
  const auto sets_part = [](const runner::Assignment& set) {
    return set.path.back() == "partition_mb";
  };
  EXPECT_EQ(std::count_if(one.set.begin(), one.set.end(), sets_part), 1);
  EXPECT_EQ(std::find_if(one.set.begin(), one.set.end(), sets_part)->data.text(), "16");
}

TEST(ExperimentText, IsReadAsItWasWritten) {
  const testing::TemporaryFolder folder;
  runner::Experiment experiment;
  runner::ExperimentConfig& common = experiment.common;
  common = training_of_preset(
      "gpt2",
      {"device.kind=sim", "train.recompute=full", "optimizer.lr=0.25", "scheme.ddp.bucket_mb=5",
       std::string("device.cluster=") + RINGSIDE_CLUSTERS + "/rtx-4090-1x8.toml"});
  common.compare.repeats = 2;
  Question asked;
  asked.training = common;
  complete(asked);
  const Family family = families_of(asked, 8)[3];
  const Candidate candidate{.family = family,
                            .world = 8,
                            .precision = "tf32",
                            .recompute = Recompute::attention,
                            .micro_batches = 2};
  experiment.cases.push_back(case_of(asked, candidate));
  const std::string text = runner::experiment_text(experiment, "two\nlines");
  EXPECT_THAT(text, ::testing::StartsWith("# two\n# lines\n"));
  const runner::Experiment read = runner::read_experiment(folder.write("gpt2.toml", text), {});
  EXPECT_EQ(read.common.model, common.model);
  EXPECT_EQ(read.common.train, common.train);
  EXPECT_EQ(read.common.data, common.data);
  EXPECT_EQ(read.common.optimizer, common.optimizer);
  EXPECT_EQ(read.common.cluster, common.cluster);
  EXPECT_EQ(read.common.compare.repeats, 2);
  EXPECT_EQ(read.common.scheme_options.at("ddp"), common.scheme_options.at("ddp"));
  ASSERT_EQ(read.cases.size(), 1u);
  EXPECT_EQ(read.cases[0].label, "fsdp, tf32, recompute attention, 2 micro-batches");
  EXPECT_EQ(read.cases[0].set.size(), experiment.cases[0].set.size());
}

}  // namespace
}  // namespace ringside::tools::advise
