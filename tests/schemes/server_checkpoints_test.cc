// Runs whose servers write checkpoints, and go on from them. checkpoints_test.cc has the bits of
// all placements.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <memory>
#include <string>

#include "ps/schemes/dp.h"
#include "ps/schemes/ps.h"
#include "tests/schemes/checkpointed_runs.h"
#include "tests/schemes/conformance.h"
#include "tests/schemes/wrapped.h"
#include "tests/support/complaint.h"

namespace ringside::runner {
namespace {

using testing::going_on;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::run;
using testing::saving;
using testing::TemporaryFolder;
using testing::tiny;
using testing::wrong_losses;
using testing::wrong_parameters;

/// A run with servers, which have several chunks each.
RunPlan with_servers(ExperimentConfig config, int world, ps::PsOptions options) {
  options.partition_mb = 0.01;
  config.scheme_options["ps"] = options;
  return plan_training(config, "ps", world);
}

/// Servers that add up the gradients of every micro-batch have had several pushes of a step.
TEST(ServerCheckpoints, GoOnWhereEveryMicroBatchIsPushed) {
  auto config = testing::accumulating();
  config.train.reduce = Reduce::every;
  for (const int group : {1, 2}) {
    const RunPlan plan = with_servers(config, 2, {.servers = 2, .sum_group = group});
    ASSERT_GT(plan.train.accumulation, 1);
    const RunRecord unbroken = run(plan);
    const TemporaryFolder folder;
    saving(plan, folder);
    const RunRecord row = going_on(plan, folder, 2);
    EXPECT_THAT(wrong_parameters(row, unbroken), IsEmpty()) << group;
    EXPECT_THAT(wrong_losses(row, unbroken), IsEmpty()) << group;
  }
}

/// LAMB has a round of sums of its own before each update.
TEST(ServerCheckpoints, GoOnWithTheRoundsOfLamb) {
  auto config = tiny("gpt");
  config.optimizer.kind = "lamb";
  config.optimizer.clip_norm = 0.5;
  const RunPlan plan = with_servers(config, 3, {.servers = 2});
  const RunRecord unbroken = run(plan);
  const TemporaryFolder folder;
  saving(plan, folder, false);
  EXPECT_THAT(wrong_parameters(going_on(plan, folder, 3), unbroken), IsEmpty());
}

TEST(ServerCheckpoints, AreWholeNextToServersThatKeepNothing) {
  const auto config = tiny("mlp");
  RunPlan plan = with_servers(config, 2, {.servers = 40});
  const RunRecord unbroken = run(plan);
  const TemporaryFolder folder;
  RunPlan writes = plan;
  writes.checkpoint = {folder.path().string(), 1, 100, true};
  std::size_t parts = 0;
  for (const RankRecord& rank : run(writes).ranks) {
    ASSERT_TRUE(rank.checkpoints.has_value());
    EXPECT_EQ(rank.checkpoints->failure, "");
    parts += rank.checkpoints->bytes > 0 ? 1 : 0;
  }
  const Checkpoint whole(checkpoints_in(folder.path()).at(4));
  EXPECT_EQ(whole.manifest().files.size(), parts);
  EXPECT_GT(parts, 1U);
  EXPECT_LT(parts, 40U);
  EXPECT_THAT(wrong_parameters(going_on(plan, folder, 4), unbroken), IsEmpty());
  // The same values on one server, at another world.
  const RunRecord at_end = going_on(with_servers(config, 4, {.servers = 1}), folder, 5);
  EXPECT_EQ(at_end.parameter_hashes, unbroken.parameter_hashes);
}

/// Servers, as workers, give up a checkpoint that they cannot write, and say why.
TEST(ServerCheckpoints, ThatCannotBeWrittenLeaveTheRunAsItIs) {
  RunPlan plan = with_servers(tiny("mlp"), 2, {.servers = 1});
  const RunRecord unbroken = run(plan);
  const TemporaryFolder folder;
  plan.checkpoint = {(folder.path() / "missing").string(), 1, 100, true};
  const RunRecord row = run(plan);
  EXPECT_THAT(wrong_parameters(row, unbroken), IsEmpty());
  ASSERT_EQ(row.ranks.size(), 3U);
  for (const RankRecord& rank : row.ranks) {
    ASSERT_TRUE(rank.checkpoints.has_value());
    EXPECT_EQ(rank.checkpoints->written, 0);
    EXPECT_THAT(rank.checkpoints->failure, HasSubstr("missing"));
  }
}

/// What servers report of a step is that of the steps that were done again.
TEST(ServerCheckpoints, FiguresAreThoseOfTheStepsThatWereDone) {
  auto config = tiny("gpt");
  config.train.steps = 8;
  const RunPlan plan = with_servers(config, 2, {.servers = 1});
  const TemporaryFolder folder;
  const RunRecord unbroken = saving(plan, folder), row = going_on(plan, folder, 4);
  const RankRecord &before = unbroken.ranks.back(), &after = row.ranks.back();
  EXPECT_GT(before.bytes_received_per_step, 0);
  EXPECT_DOUBLE_EQ(after.bytes_received_per_step, before.bytes_received_per_step);
  EXPECT_EQ(after.checkpoints->resumed_after, 4);
}

/// Worker 0 learns in its second step that the run should stop.
class ToldToStop : public testing::Wrapped {
 public:
  using Wrapped::Wrapped;
  bool step(const StepInfo& info) override {
    if (context().self().worker == 0 && info.step == 1) context().store.set(stop_key, "");
    return Wrapped::step(info);
  }
};

TEST(ServerCheckpoints, AreWrittenWhenTheRunIsToldToStop) {
  const auto config = tiny("gpt");
  for (const RunPlan& unbroken :
       {with_servers(config, 2, {.servers = 2}),
        with_servers(config, 2, {.servers = 2, .placement = ps::Placement::colocated}),
        with_servers(config, 2, {.servers = 1, .sum_group = 2}), plan_training(config, "dp", 2),
        plan_training(config, "ddp", 2)})
    for (const bool asynchronous : {false, true}) {
      const TemporaryFolder folder;
      RunPlan stopped = unbroken;
      stopped.checkpoint = {folder.path().string(), 4, 100, asynchronous};
      SchemeInfo info = find_scheme(unbroken.scheme);
      info.make = [make = info.make](const RankContext& context, const Options& options) {
        return std::make_unique<ToldToStop>(context, make(context, options));
      };
      run(stopped, &info);
      EXPECT_THAT(checkpoints_in(folder.path()),
                  ::testing::ElementsAre(::testing::Key(std::int64_t{2})))
          << unbroken.scheme;
      EXPECT_THAT(wrong_parameters(going_on(unbroken, folder, 2), run(unbroken)), IsEmpty())
          << unbroken.scheme;
    }
}

/// The row of ps, whose server `server` goes on from another checkpoint; from none, if it is empty.
SchemeInfo with_server_from(int server, const std::string& checkpoint) {
  SchemeInfo wrong = find_scheme("ps");
  wrong.serve = [serve = wrong.serve, server, checkpoint](const RankContext& context,
                                                          const Options& options, Model& model,
                                                          const Loader& loader) {
    if (context.self().server != server) return serve(context, options, model, loader);
    RunPlan plan = context.plan;
    plan.resume = checkpoint;
    const RankContext other{plan,
                            context.rank,
                            context.device,
                            context.store,
                            context.timeline,
                            context.shared,
                            context.initial_values,
                            context.links,
                            context.host,
                            context.program,
                            context.own_process};
    return serve(other, options, model, loader);
  };
  return wrong;
}

/// It would count pushes twice, or leave some out; its clocks refuse the first one.
TEST(WrongServerCheckpoints, AServerThatIsBehindOrAheadOfItsWorkersIsFoundOut) {
  const RunPlan plan = with_servers(tiny("mlp"), 1, {.servers = 2});
  const TemporaryFolder folder;
  saving(plan, folder);
  const auto error = [&](const std::string& checkpoint) {
    const SchemeInfo wrong = with_server_from(1, checkpoint);
    return testing::complaint([&] { going_on(plan, folder, 2, &wrong); });
  };
  const auto all = checkpoints_in(folder.path());
  EXPECT_THAT(error(""), HasSubstr("step 2 was pushed, but step 0 is due"));
  EXPECT_THAT(error(all.at(1)), HasSubstr("step 2 was pushed, but step 1 is due"));
  EXPECT_THAT(error(all.at(3)), HasSubstr("step 2 has already been pushed"));
  EXPECT_EQ(error(all.at(2)), "nothing");
}

/// The server tells the workers, which wait for its values, what is wrong with its part.
TEST(ServerCheckpoints, ThatAreDamagedEndTheRunAndNameTheFile) {
  const RunPlan plan = with_servers(tiny("mlp"), 1, {.servers = 1});
  const TemporaryFolder folder;
  saving(plan, folder);
  const std::string file = rank_file_name(1, RankPart::server);
  {
    std::fstream bytes(checkpoints_in(folder.path()).at(3) / file,
                       std::ios::in | std::ios::out | std::ios::binary);
    bytes.seekp(3000);
    bytes.put('\x7f');
  }
  EXPECT_THAT(testing::complaint([&] { going_on(plan, folder, 3); }), HasSubstr(file));
}

}  // namespace
}  // namespace ringside::runner
