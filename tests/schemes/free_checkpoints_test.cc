// Runs whose workers do not wait for each other write checkpoints, and go on from them: the whole
// run, before and after, is that of its history.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <filesystem>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "core/base/whole_file.h"
#include "experiments/runner/plan/references.h"
#include "peer/fsdp/fsdp.h"
#include "ps/schemes/adpsgd.h"
#include "ps/schemes/async_diloco.h"
#include "ps/schemes/decoupled_diloco.h"
#include "ps/schemes/fedavg.h"
#include "tests/schemes/checkpointed_runs.h"
#include "tests/schemes/conformance.h"
#include "tests/schemes/free_workers.h"
#include "tests/schemes/wrong_schemes.h"
#include "tests/support/complaint.h"

namespace ringside::runner {
namespace {

using testing::complaint;
using testing::Hindered;
using ::testing::IsEmpty;
using testing::TemporaryFolder;
using testing::tiny;

/// A scheme whose workers do not wait for each other at every step.
struct Free {
  std::string name, scheme;
  Options options;
  std::int64_t period = 1;  // they meet after whole periods

  RunPlan plan(ExperimentConfig config = tiny("mlp"), int world = 3) const {
    config.train.steps = 8;
    config.train.evaluate_every = 4;
    config.train.evaluate_batches = 1;
    config.scheme_options[scheme] = options;
    return plan_training(config, scheme, world);
  }
};
void PrintTo(const Free& one, std::ostream* out) { *out << one.name; }

std::vector<Free> all_free() {
  std::vector<Free> out;
  for (const testing::FreeConsistency& one : testing::ways_to_keep_in_step())
    out.push_back(
        {one.name, "ps", one.options, one.options.consistency == ps::Consistency::easgd ? 2 : 1});
  const auto ps = [&](const std::string& name, const ps::PsOptions& options) {
    out.push_back(
        {name, "ps", options,
         options.consistency == ps::Consistency::easgd ? options.communication_period : 1});
  };
  const CompressionOptions int8{.compressor = "int8", .block = 100};
  using ps::Consistency;
  ps("asp_equal", {.servers = 2, .consistency = Consistency::asp, .equal_steps = true});
  ps("asp_both_coded", {.consistency = Consistency::asp,
                        .partition_mb = 0.01,
                        .compression = int8,
                        .pull_compressor = "int8"});
  ps("asp_onebit", {.consistency = Consistency::asp, .compression = {.compressor = "onebit"}});
  ps("easgd_equal",
     {.consistency = Consistency::easgd, .communication_period = 4, .equal_steps = true});
  ps("asp_colocated", {.placement = ps::Placement::colocated, .consistency = Consistency::asp});
  const auto async = [&](const std::string& name, const ps::AsyncDilocoOptions& options) {
    out.push_back({name, "async_diloco", options, options.outer.sync_every});
  };
  async("async_diloco", {.outer = {.sync_every = 2}});
  async("async_diloco_equal", {.outer = {.sync_every = 2, .equal_steps = true},
                               .momentum_delay = 4,
                               .momentum_activation = 0.1});
  async("async_diloco_by_speed", {.outer = {.sync_every = 4, .by_speed = true}});
  out.push_back({"decoupled_diloco", "decoupled_diloco",
                 ps::DecoupledDilocoOptions{
                     .outer = {.sync_every = 2}, .grace_ms = 1, .servers = {.servers = 2}},
                 2});
  out.push_back({"adpsgd", "adpsgd", ps::AdpsgdOptions{}});
  out.push_back({"fedavg", "fedavg", ps::FedAvgOptions{.sync_every = 3, .client_fraction = 0.67}});
  return out;
}

/// The run of the plan, whose workers are hindered as the seed says.
RunRecord run_free(const RunPlan& plan, std::uint64_t seed) {
  RunRecord row = testing::run_hindered(plan, seed);
  for (const RankRecord& rank : row.ranks) {
    if (rank.checkpoints) {
      EXPECT_EQ(rank.checkpoints->failure, "");
    }
  }
  return row;
}

RunRecord definition_of(const RunRecord& row) {
  return row.plan.promise == Promise::replayed ? testing::run(testing::replay_plan_of(row))
                                               : testing::run(plan_definition(row.plan));
}

/// Where the run differs from its definition.
std::vector<std::string> wrong(const RunRecord& row) {
  return tools::check::differences(row, definition_of(row));
}

std::vector<std::int64_t> steps_of(const TemporaryFolder& folder) {
  std::vector<std::int64_t> out;
  for (const auto& [step, path] : checkpoints_in(folder.path())) out.push_back(step);
  return out;
}

class FreeCheckpoints : public ::testing::TestWithParam<Free> {};

TEST_P(FreeCheckpoints, LeaveTheRunToItsHistoryAndSoDoesItsRest) {
  for (const Precision precision : {Precision::fp32, Precision::bf16}) {
    auto config = tiny("mlp");
    config.train.precision = precision;
    RunPlan plan = GetParam().plan(config);
    const TemporaryFolder folder;
    plan.checkpoint = {folder.path().string(), 1, 100, true};
    const RunRecord saved = run_free(plan, 1);
    EXPECT_THAT(wrong(saved), IsEmpty());
    std::vector<std::int64_t> expected;
    for (std::int64_t step = GetParam().period; step <= 8; step += GetParam().period)
      expected.push_back(step);
    EXPECT_EQ(steps_of(folder), expected);
    plan.checkpoint = {};
    for (const std::int64_t step : expected) {
      plan.resume = checkpoints_in(folder.path()).at(step).string();
      EXPECT_THAT(wrong(run_free(plan, static_cast<std::uint64_t>(7 + step))), IsEmpty())
          << "from step " << step << " in " << name_of(precision);
    }
  }
}

/// A run that goes on writes checkpoints too, from which others go on: the history has all parts.
TEST_P(FreeCheckpoints, AreMadeOfPartsThatFollowEachOther) {
  RunPlan plan = GetParam().plan();
  const TemporaryFolder folder;
  plan.checkpoint = {folder.path().string(), 4, 100, true};
  run_free(plan, 2);
  for (const int part : {1, 2}) {
    std::filesystem::remove_all(folder.path() / checkpoint_name(8));
    plan.resume = checkpoints_in(folder.path()).at(4).string();
    const RunRecord row = run_free(plan, static_cast<std::uint64_t>(part + 10));
    EXPECT_THAT(wrong(row), IsEmpty());
    EXPECT_THAT(steps_of(folder), ::testing::ElementsAre(4, 8));
  }
  // From the last one nothing is left to do.
  plan.resume = checkpoints_in(folder.path()).at(8).string();
  EXPECT_THAT(wrong(run_free(plan, 1)), IsEmpty());
}

/// A worker learns in its third step that the run should stop; the launcher tells it to all.
class StopsRun : public testing::Wrapped {
 public:
  using Wrapped::Wrapped;
  bool step(const StepInfo& info) override {
    if (context().self().worker == 0 && info.step == 2) context().store.set(stop_key, "");
    return Wrapped::step(info);
  }
};

TEST_P(FreeCheckpoints, AreWrittenWhenTheRunIsToldToStop) {
  RunPlan plan = GetParam().plan();
  const TemporaryFolder folder;
  plan.checkpoint = {folder.path().string(), 0, 100, true};
  plan.train.steps = 8;
  const SchemeInfo stops = testing::wrapping<StopsRun>(GetParam().scheme);
  testing::run(plan, &stops);
  const std::vector<std::int64_t> steps = steps_of(folder);
  ASSERT_EQ(steps.size(), 1U);
  EXPECT_GE(steps[0], 1);  // of all workers, of which the others may be behind
  plan.resume = checkpoints_in(folder.path()).at(steps[0]).string();
  EXPECT_THAT(wrong(run_free(plan, 3)), IsEmpty());
}

INSTANTIATE_TEST_SUITE_P(All, FreeCheckpoints, ::testing::ValuesIn(all_free()),
                         [](const auto& info) { return info.param.name; });

/// Checkpoints of servers that do not wait are also those of other runs.
TEST(FreeCheckpointsOfOthers, GiveTheirModel) {
  const Free asp{"asp", "ps", ps::PsOptions{.consistency = ps::Consistency::asp}};
  const Free coded{"coded", "ps",
                   ps::PsOptions{.consistency = ps::Consistency::asp, .pull_compressor = "bf16"}};
  const Free bsp{"bsp", "ps", ps::PsOptions{}};
  auto config = tiny("mlp");
  config.optimizer.kind = "sgd";
  const TemporaryFolder folder;
  RunPlan plan = asp.plan(config);
  plan.checkpoint = {folder.path().string(), 4, 100, true};
  run_free(plan, 4);
  config.optimizer.lr = 0;  // steps change nothing
  config.optimizer.weight_decay = 0;
  const auto from = [&](const Free& other) {
    RunPlan goes_on = other.plan(config);
    goes_on.resume = checkpoints_in(folder.path()).at(4).string();
    return run_free(goes_on, 5).parameter_hashes;
  };
  const std::vector<std::string> model = from({"ddp", "ddp", find_scheme("ddp").defaults});
  EXPECT_EQ(from(asp), model);
  EXPECT_EQ(from(bsp), model);
  EXPECT_EQ(from(coded), model);
  EXPECT_NE(testing::run(bsp.plan(config)).parameter_hashes, model) << "a new one";
  // What a run does not have from its beginning cannot be replayed, and it says so.
  RunPlan goes_on = coded.plan(config);
  goes_on.resume = checkpoints_in(folder.path()).at(4).string();
  const RunRecord row = run_free(goes_on, 5);
  EXPECT_THAT(complaint([&] { wrong(row); }), ::testing::HasSubstr("is not whole"));
}

/// Changes a checkpoint's manifest.
void change(const std::filesystem::path& checkpoint,
            const std::function<void(nlohmann::ordered_json& scalars)>& how) {
  Manifest manifest = Checkpoint(checkpoint).manifest();
  how(manifest.scalars);
  std::filesystem::remove(checkpoint / "manifest.json");
  write_manifest(OpenFolder(checkpoint), manifest);
}

/// Servers that forget a part of their course do not end with the run of the history.
TEST(WrongFreeCheckpoints, ThatLackAPartOfTheCourseAreFoundOut) {
  const Free asp{"asp", "ps", ps::PsOptions{.consistency = ps::Consistency::asp}};
  RunPlan plan = asp.plan();
  const auto from_changed = [&](const std::function<void(nlohmann::ordered_json&)>& how) {
    const TemporaryFolder folder;
    plan.checkpoint = {folder.path().string(), 4, 100, true};
    plan.resume.clear();
    run_free(plan, 6);
    plan.checkpoint = {};
    plan.resume = checkpoints_in(folder.path()).at(4).string();
    change(plan.resume, [&](auto& scalars) { how(scalars["servers"][0]["chunks"][0]); });
    return complaint([&] {
      for (const std::string& one : wrong(run_free(plan, 7))) throw Error("{}", one);
    });
  };
  EXPECT_EQ(from_changed([](auto&) {}), "nothing");
  EXPECT_THAT(from_changed([](auto& chunk) { chunk["events"] = ""; }),
              ::testing::Not(::testing::Eq("nothing")));
  EXPECT_THAT(from_changed([](auto& chunk) { chunk["version"] = 0; }),
              ::testing::HasSubstr("differ"));
  EXPECT_THAT(from_changed([](auto& chunk) { chunk["next"][1] = 0; }),
              ::testing::Not(::testing::Eq("nothing")))
      << "the worker's next push is refused";
  EXPECT_THAT(from_changed([](auto& chunk) {
                chunk["next"] = {1, 2};
              }),
              ::testing::HasSubstr("the course of server 0: there is another chunk"));
  EXPECT_THAT(from_changed([](auto& chunk) { chunk.erase("reads"); }),
              ::testing::HasSubstr("the course of server 0 cannot be read"));
}

/// Losses that are not finite have no number in JSON.
TEST(FreeCheckpointsOfOthers, HaveLossesThatAreNotFinite) {
  const RunPlan plan = plan_training(tiny("mlp"), "ddp", 2);
  const TemporaryFolder folder;
  testing::saving(plan, folder);
  const std::filesystem::path path = checkpoints_in(folder.path()).at(3);
  change(path, [](nlohmann::ordered_json& scalars) {
    nlohmann::ordered_json& losses = scalars["losses"][1]["losses"];
    losses[0] = "nan";
    losses[1] = "-inf";
    losses[2] = nullptr;  // of older checkpoints
  });
  const RunRecord row = testing::going_on(plan, folder, 3);
  const std::vector<double>& losses = row.ranks[1].losses;
  ASSERT_EQ(losses.size(), 5U);
  EXPECT_TRUE(std::isnan(losses[0]));
  EXPECT_EQ(losses[1], -std::numeric_limits<double>::infinity());
  EXPECT_TRUE(std::isnan(losses[2]));
  EXPECT_TRUE(std::isfinite(losses[3]));
}

/// Ranges of one name that follow each other are one, however a scheme shows them.
TEST(CheckpointsOfOneRank, HaveNoNeighbouringRangesOfOneName) {
  auto config = tiny("gpt");
  const CompressionOptions int8{
      .compressor = "int8", .memory = ErrorMemory::residual, .block = 100};
  config.scheme_options["fsdp"] =
      peer::FsdpOptions{.compression = int8, .zero_quantized_gradients = true};
  config.scheme_options["ps"] = ps::PsOptions{.servers = 1, .partition_mb = 0.01};
  for (const char* scheme : {"fsdp", "ps"}) {
    const TemporaryFolder folder;
    testing::saving(plan_training(config, scheme, 4), folder);
    const Checkpoint checkpoint(checkpoints_in(folder.path()).at(3));
    for (const CheckpointFile& file : checkpoint.manifest().files) {
      std::map<StateKey, std::set<std::int64_t>> ends;
      for (const SavedRange& range : file.ranges) ends[range.key].insert(range.begin + range.count);
      for (const SavedRange& range : file.ranges)
        EXPECT_FALSE(ends[range.key].contains(range.begin))
            << file.name << ": " << range.key.name << " from " << range.begin << " on";
    }
  }
}

/// The largest numbers that an experiment can have.
TEST(CheckpointsOfOneRank, AreKeptAndFarBetween) {
  constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max();
  for (const auto& [scheme, options] :
       {std::pair<std::string, Options>{"ddp", find_scheme("ddp").defaults},
        {"ps", ps::PsOptions{}},
        {"ps", ps::PsOptions{.consistency = ps::Consistency::asp}},
        {"async_diloco", ps::AsyncDilocoOptions{}}}) {
    auto config = tiny("mlp");
    config.scheme_options[scheme] = options;
    RunPlan plan = plan_training(config, scheme, 2);
    const TemporaryFolder folder;
    plan.checkpoint = {folder.path().string(), most, most, true};
    testing::run(plan);
    EXPECT_THAT(steps_of(folder), ::testing::ElementsAre(5)) << scheme;
  }
}

/// A store that takes its time with what a server says of its part.
class SlowStore final : public Store {
 public:
  SlowStore(Store& right, double seconds) : right_(right), seconds_(seconds) {}
  void set(const std::string& key, const std::string& value) override {
    if (key.starts_with("checkpoint/") && key.ends_with("/server 0") &&
        key != "checkpoint/server 0")
      std::this_thread::sleep_for(std::chrono::duration<double>(seconds_));
    right_.set(key, value);
  }
  std::string get(const std::string& key, double timeout_s) override {
    return right_.get(key, timeout_s);
  }
  std::optional<std::string> try_get(const std::string& key) override {
    return right_.try_get(key);
  }

 private:
  Store& right_;
  double seconds_;
};

/// Servers and worker 0 wait longer for a part that is being written than train.timeout_s.
TEST(SlowCheckpoints, DoNotEndARunWithServers) {
  SchemeInfo slow = find_scheme("ps");
  slow.serve = [serve = slow.serve](const RankContext& context, const Options& options,
                                    Model& model, const Loader& loader) {
    SlowStore store(context.store, 2.4);
    const RankContext other{
        context.plan,     context.rank,    context.device,         store,
        context.timeline, context.shared,  context.initial_values, context.links,
        context.host,     context.program, context.own_process};
    return serve(other, options, model, loader);
  };
  for (const ps::Consistency consistency : {ps::Consistency::bsp, ps::Consistency::asp}) {
    auto config = tiny("mlp");
    config.train.steps = 2;
    config.train.timeout_s = 1.5;
    config.scheme_options["ps"] = ps::PsOptions{.consistency = consistency};
    RunPlan plan = plan_training(config, "ps", 2);
    const TemporaryFolder folder;
    plan.checkpoint = {folder.path().string(), 1, 100, true};
    const RunRecord row = testing::run(plan, &slow);
    for (const RankRecord& rank : row.ranks) {
      ASSERT_TRUE(rank.checkpoints);
      EXPECT_EQ(rank.checkpoints->failure, "");
    }
    EXPECT_THAT(steps_of(folder), ::testing::ElementsAre(1, 2));
  }
}

}  // namespace
}  // namespace ringside::runner
