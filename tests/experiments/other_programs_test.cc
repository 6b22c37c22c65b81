// Schemes whose ranks are another program: what the planner refuses, what such a rank is fed, and
// how the real program goes on with one that this test brings.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "core/base/json_fields.h"
#include "core/device/cpu/cpu_device.h"
#include "core/interchange/safetensors.h"
#include "core/optim/optimizer_config.h"
#include "core/plan/definition.h"
#include "core/plan/same_run.h"
#include "core/plan/slices.h"
#include "experiments/runner/plan/planner.h"
#include "experiments/runner/plan/references.h"
#include "experiments/runner/registry/registry.h"
#include "experiments/runner/report/verdict.h"
#include "experiments/runner/run/feed.h"
#include "tests/experiments/made_up_rows.h"
#include "tests/experiments/program_test.h"
#include "tests/support/complaint.h"

namespace ringside::runner {
namespace {

using testing::Ended;
using ::testing::HasSubstr;
using ::testing::Not;

// ---- plans

TEST(OtherProgramPlans, SayWhichProgramRunsTheRanksAndInWhichEnvironment) {
  ExperimentConfig config = made_up_experiment();
  config.device.threads = 1;
  const RunPlan plan = plan_training(config, "torch-ddp", 2);
  EXPECT_EQ(plan.program, (OtherProgram{"python3", "peers/ringside_peers", false}));
  EXPECT_FALSE(in_one_process(plan));
  for (const RankPlan& rank : plan.ranks)
    EXPECT_THAT(rank.environment,
                ::testing::IsSupersetOf({"OMP_NUM_THREADS=1", "GLOO_SOCKET_IFNAME=lo"}));
  EXPECT_EQ(run_plan_from_json(nlohmann::json(to_json(plan)), default_options), plan);
  EXPECT_FALSE(to_json(plan_training(config, "ddp", 2)).contains("program"));
}

TEST(OtherProgramPlans, DefinitionsAreAlwaysOurs) {
  const RunPlan plan = plan_training(made_up_experiment(), "torch-local-sgd", 2);
  const RunPlan definition = plan_definition(plan);
  EXPECT_FALSE(definition.program.has_value());
  EXPECT_THAT(definition.ranks.at(0).environment, Not(::testing::Contains("OMP_NUM_THREADS=1")));
  EXPECT_TRUE(must_equal(plan, definition));
}

TEST(OtherProgramPlans, WhatPyTorchDoesNotDoAsWeDoIsRefused) {
  const auto refusal = [](const std::function<void(ExperimentConfig&)>& change,
                          const std::string& scheme = "torch-ddp") {
    ExperimentConfig config = made_up_experiment();
    change(config);
    return testing::complaint([&] { plan_training(config, scheme, 2); });
  };
  EXPECT_EQ(refusal([](ExperimentConfig&) {}), "nothing");
  EXPECT_THAT(refusal([](auto& c) { c.model.dropout = 0.1; }), HasSubstr("model.dropout = 0.1"));
  EXPECT_THAT(refusal([](auto& c) { c.train.precision = Precision::bf16; }),
              HasSubstr("train.precision = 'bf16'"));
  EXPECT_THAT(refusal([](auto& c) { c.train.recompute = Recompute::full; }),
              HasSubstr("train.recompute = 'full'"));
  EXPECT_THAT(refusal([](auto& c) { c.train.offload = Offload::optimizer; }),
              HasSubstr("train.offload = 'optimizer'"));
  EXPECT_THAT(refusal([](auto& c) { c.train.reduce = Reduce::every; }), HasSubstr("'every'"));
  EXPECT_EQ(refusal([](auto& c) { c.train.reduce = Reduce::every; }, "torch-fsdp"), "nothing");
  EXPECT_THAT(refusal([](auto& c) {
                c.train.shares = Shares::given;
                c.train.weights = {1, 2};
              }),
              HasSubstr("train.shares"));
  EXPECT_THAT(refusal([](auto& c) { norm_in_groups(c, 2); }), HasSubstr("batch_norm_group = 2"));
  EXPECT_THAT(refusal([](auto& c) {
                c.model.kind = "gpt";
                c.model.epsilon = 1e-3;
              }),
              HasSubstr("model.epsilon = 0.001 is not known there; leave it at 1e-05"));
  EXPECT_THAT(refusal([](auto& c) {
                c.model.kind = "gpt";
                c.model.activation = ModelActivation::gelu;
              }),
              HasSubstr("model.activation = 'gelu' is not known there; leave it at 'gelu_tanh'"));
  EXPECT_EQ(refusal([](auto& c) {
              c.model.kind = "gpt";
              c.model.epsilon = 1e-5;
              c.model.activation = ModelActivation::gelu_tanh;
            }),
            "nothing");
  EXPECT_THAT(refusal([](auto& c) { c.optimizer.kind = "lamb"; }), HasSubstr("'lamb'"));
  EXPECT_THAT(refusal([](auto& c) { c.optimizer.clip_norm = 1; }), HasSubstr("clip_norm = 1"));
  EXPECT_THAT(refusal([](auto& c) { c.device.slow = {1, 2}; }), HasSubstr("device.slow"));
  EXPECT_THAT(refusal([](auto&) {}, "torch-dp"), HasSubstr("DataParallel needs GPUs"));
}

// ---- verdicts

TEST(OtherProgramVerdicts, LossesAloneAreHeldAgainstSingleTo1e4) {
  const auto verdict_of = [](double off) {
    std::vector<RunRecord> rows = {made_up_row("single", 1, 0, 10, "aa", {2, 1}),
                                   made_up_row("torch-ddp", 2, 0, 10, "", {2, 1 + off})};
    rows[1].parameter_hashes.clear();
    return verdict({&rows[1]}, rows).proof;
  };
  EXPECT_EQ(verdict_of(0), Proof::to_rounding);
  EXPECT_EQ(verdict_of(9e-5), Proof::to_rounding);
  EXPECT_EQ(verdict_of(2e-4), Proof::different);
}

// ---- what a rank is fed

struct Message {
  nlohmann::json line;
  std::vector<std::byte> bytes;
};

std::vector<Message> messages_of(const RunPlan& plan, int rank) {
  std::vector<std::byte> stream;
  feed(plan, rank, [&](std::span<const std::byte> bytes) {
    stream.insert(stream.end(), bytes.begin(), bytes.end());
  });
  std::vector<Message> out;
  for (auto at = stream.begin(); at != stream.end();) {
    const auto end = std::find(at, stream.end(), std::byte{'\n'});
    Message& message = out.emplace_back();
    message.line = nlohmann::json::parse(reinterpret_cast<const char*>(&*at),
                                         reinterpret_cast<const char*>(&*end));
    const auto size = message.line.at("bytes").get<std::ptrdiff_t>();
    message.bytes.assign(end + 1, end + 1 + size);
    at = end + 1 + size;
  }
  return out;
}

ExperimentConfig fed_experiment() {
  ExperimentConfig config = made_up_experiment();
  config.model = {.kind = "gpt", .layers = 1, .heads = 2, .width = 8, .context = 4};
  config.data = {};
  config.data.kind = "synthetic";
  config.train.global_batch = 8;
  config.train.micro_batch = 2;
  config.train.steps = 3;
  config.train.evaluate_every = 3;
  config.train.evaluate_batches = 2;
  config.optimizer.warmup_steps = 2;
  return config;
}

TEST(FeedTest, ARankGetsItsMicroBatchesAsOurLoaderMakesThem) {
  const RunPlan plan = plan_training(fed_experiment(), "torch-ddp", 2);
  const std::vector<Message> messages = messages_of(plan, 1);
  ASSERT_EQ(messages.size(), 1u + 2 * 2 + 3 * 2);
  const auto device = make_cpu_device(1);
  const Model model = make_model(plan.model, *device);
  const Datasets data = find_dataset("synthetic").make(plan.data, plan.model, model.task);
  const Loader training(*data.training, *device, 8, 1), held_out(*data.held_out, *device, 8, 1);
  std::size_t at = 1;
  for (const auto& [kind, loader, steps] :
       {std::tuple("held-out", &held_out, 2), std::tuple("training", &training, 3)})
    for (int step = 0; step < steps; ++step)
      for (int m = 0; m < 2; ++m, ++at) {
        const Message& message = messages[at];
        EXPECT_EQ(message.line["kind"], kind);
        const auto tensors = parse_safetensors("message", message.bytes).tensors;
        const Batch batch = loader->read(slice_of(plan, 1, step, m));
        for (const auto& [name, tensor] :
             {std::pair("inputs", batch.inputs), std::pair("targets", batch.targets)}) {
          std::vector<std::byte> values(tensor.bytes());
          device->read(tensor, values);
          EXPECT_THAT(tensors.at(name).bytes, ::testing::ElementsAreArray(values)) << at << name;
          EXPECT_EQ(tensors.at(name).extents, (std::vector<std::int64_t>{2, 4}));
        }
        if (kind == std::string("held-out")) continue;
        EXPECT_EQ(message.line["lr"],
                  learning_rate(plan.optimizer, step, {.steps = 3, .replicas = 2}));
      }
}

TEST(FeedTest, ItBeginsWithInitialValuesAndWhatARecordKnowsAlready) {
  const RunPlan plan = plan_training(fed_experiment(), "torch-ddp", 2);
  const Message start = messages_of(plan, 1).at(0);
  EXPECT_EQ(start.line["kind"], "start");
  EXPECT_EQ(start.line["evaluated"], 2);
  const auto record = read_json<RankRecord>(start.line["record"]);
  EXPECT_EQ(record.rank, 1);
  EXPECT_EQ(record.role, "worker");
  EXPECT_EQ(record.tokens_per_sample, 4);
  EXPECT_EQ(record.minimum_bytes_per_step, 4.0 * static_cast<double>(record.parameters));
  std::int64_t elements = 0;
  for (const auto& [name, tensor] : parse_safetensors("start", start.bytes).tensors)
    elements += static_cast<std::int64_t>(tensor.bytes.size() / 4);
  EXPECT_EQ(elements, record.parameters);
}

TEST(FeedTest, OneProcessOfAllRanksGetsTheMicroBatchesOfAll) {
  RunPlan plan = plan_training(fed_experiment(), "torch-ddp", 2);
  const auto of_0 = messages_of(plan, 0), of_1 = messages_of(plan, 1);
  plan.program->all_ranks = true;
  const auto all = messages_of(plan, 0);
  ASSERT_EQ(all.size(), 2 * of_0.size() - 1);
  for (std::size_t i = 1; i < of_0.size(); ++i) {
    EXPECT_EQ(all[2 * i - 1].bytes, of_0[i].bytes);
    EXPECT_EQ(all[2 * i].bytes, of_1[i].bytes);
  }
}

TEST(FeedTest, ADefinitionGetsTheMicroBatchesOfAllWorkersOneAfterTheOther) {
  ExperimentConfig config = fed_experiment();
  config.optimizer.lr_scaling = LrScaling::linear;
  RunPlan plan = plan_training(config, "torch-ddp", 2);
  plan.promise = Promise::own_algorithm;
  plan.program->definition = DefinedBy::program;
  const auto of_0 = messages_of(plan, 0), of_1 = messages_of(plan, 1);
  const auto all = messages_of(plan_definition(plan), 0);
  ASSERT_EQ(all.size(), of_0.size() + of_1.size() - 1);
  EXPECT_EQ(all[0].bytes, of_0[0].bytes);
  for (std::size_t i = 1, step = 0; i < of_0.size(); i += 2, ++step)
    for (std::size_t m = 0; m < 2; ++m) {
      EXPECT_EQ(all[4 * step + 1 + m].bytes, of_0[i + m].bytes);
      EXPECT_EQ(all[4 * step + 3 + m].bytes, of_1[i + m].bytes);
      EXPECT_EQ(all[4 * step + 1 + m].line, of_0[i + m].line) << "learning rates are scaled";
    }
}

TEST(FeedTest, SamplesOfDifferentLengthsAreRefused) {
  ExperimentConfig config = fed_experiment();
  config.data.kind = "synthetic-lengths";
  const RunPlan plan = plan_training(config, "torch-ddp", 2);
  EXPECT_THAT(testing::complaint([&] { messages_of(plan, 0); }),
              HasSubstr("samples differ in length, which scheme torch-ddp does not support"));
}

// ---- the whole program, with ranks of tests/experiments/other_program.py

class OtherProgramRuns : public ProgramTest {
 protected:
  OtherProgramRuns() {
    small_gpt(8, 4,
              "steps = 4\nwarmup = 1\nglobal_batch = 4\n[compare]\nrepeats = 1\n"
              "worlds = [2]\nall_cores = false\nschemes = [\"single\", \"torch-ddp\"]\n");
  }
  /// The program that takes the place of Python; `what` says what its ranks do.
  std::string python(const std::string& what) const {
    return script("exec python3 -B " RINGSIDE_OTHER_PROGRAM " " + what + " \"$@\"\n");
  }
  std::string script(const std::string& text) const {
    const std::string file = folder_.write("python", "#!/bin/sh\n" + text);
    std::filesystem::permissions(file, std::filesystem::perms::owner_all);
    return "scheme.torch-ddp.python=" + file;
  }
};

TEST_F(OtherProgramRuns, ItsRowStandsInTheTableWithWhatItTold) {
  const Ended ended = run({"compare", "trial.toml", "--set", python("report")});
  EXPECT_EQ(ended.status, 0) << ended.err;
  const auto line_of = [&](const std::string& begin) {
    const auto at = ended.out.find("\n| " + begin);
    return at == std::string::npos ? ""
                                   : ended.out.substr(at + 1, ended.out.find('\n', at + 1) - at);
  };
  // A mean of targets is no loss of a GPT, and the kinds of memory that the program holds are not
  // known.
  EXPECT_THAT(line_of("torch-ddp"), HasSubstr("DIFFERENT"));
  EXPECT_THAT(line_of("torch-ddp"), ::testing::ContainsRegex("\\| +- \\| [0-9.]+ \\| DIFF"));
  const auto row = nlohmann::json::parse(std::ifstream(path("results/trial/summary.json")));
  for (const auto& one : row.at("cases")) {
    if (one.at("scheme") != "torch-ddp") continue;
    EXPECT_EQ(one.at("figures").at(0).at("name"), "hello");
    EXPECT_NEAR(one.at("figures").at(0).at("mean").get<double>(), 4 * 3e-4, 1e-12);
    return;
  }
  ADD_FAILURE() << row.dump(1);
}

TEST_F(OtherProgramRuns, ItsFailureIsOneLine) {
  const Ended ended = run(
      {"train", "trial.toml", "--scheme", "torch-ddp", "--world", "2", "--set", python("fail")});
  EXPECT_EQ(ended.status, 1);
  EXPECT_EQ(ended.err, "ringside: rank 1 (worker): out of ink\n");
}

TEST_F(OtherProgramRuns, IsEndedWithTheOthers) {
  testing::Program program = start(
      {"train", "trial.toml", "--scheme", "torch-ddp", "--world", "2", "--set", python("hang")});
  ASSERT_TRUE(program.wait_for("step"));
  const auto ranks = program.children();
  ASSERT_EQ(ranks.size(), 2u);
  kill(ranks[1], SIGKILL);
  const Ended ended = program.wait();
  EXPECT_EQ(ended.status, 1);
  EXPECT_THAT(ended.err, HasSubstr("rank 1 (worker) was killed by signal 9 (Killed)"));
  for (const pid_t rank : ranks) EXPECT_NE(kill(rank, 0), 0);
}

TEST_F(OtherProgramRuns, WithoutPyTorchTheRowSaysSoAndTheOthersGoOn) {
  const Ended ended =
      run({"compare", "trial.toml", "--set", script("exec python3 -I -S -B \"$@\"\n")});
  EXPECT_EQ(ended.status, 1);
  EXPECT_THAT(ended.out, HasSubstr("PyTorch is not installed for "));
  EXPECT_THAT(ended.out, HasSubstr("pip install torch safetensors, or name another Python with "
                                   "scheme.torch-ddp.python"));
  EXPECT_THAT(ended.out, HasSubstr("| single "));
}

TEST_F(OtherProgramRuns, ItWritesNoWeights) {
  const Ended ended =
      run({"train", "trial.toml", "--scheme", "torch-ddp", "--save", "w.safetensors"});
  EXPECT_EQ(ended.status, 2);
  EXPECT_THAT(ended.err, HasSubstr("--save: another program runs the ranks of scheme torch-ddp"));
}

}  // namespace
}  // namespace ringside::runner
