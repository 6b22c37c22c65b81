// AD-PSGD: every run ends with the bits of its replay, whoever came first.
#include "ps/schemes/adpsgd.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "core/device/cpu/cpu_device.h"
#include "core/device/write_values.h"
#include "ps/protocol/server_loop.h"
#include "ps/schemes/connect.h"
#include "ps/schemes/pair_server.h"
#include "tests/schemes/conformance.h"
#include "tests/schemes/free_workers.h"
#include "tests/support/complaint.h"

namespace ringside::runner {
namespace {

using ps::AdpsgdOptions;
using ps::Neighbours;
using testing::complaint;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using testing::tiny;
using testing::verdict_of;
using testing::with_replay;

RunPlan paired(ExperimentConfig config, int world, AdpsgdOptions options = {}) {
  config.scheme_options["adpsgd"] = std::move(options);
  return plan_training(config, "adpsgd", world);
}

class Adpsgd : public ::testing::TestWithParam<int> {
 protected:
  int world() const { return GetParam(); }
};
INSTANTIATE_TEST_SUITE_P(Worlds, Adpsgd, ::testing::Values(1, 2, 3, 4),
                         ::testing::PrintToStringParamName());

TEST_P(Adpsgd, EndsWithTheBitsOfItsReplay) {
  for (std::uint64_t seed = 0; seed < 3; ++seed)
    for (const Neighbours neighbours : {Neighbours::ring, Neighbours::all}) {
      auto config = tiny(seed == 0 ? "gpt" : "mlp");
      config.train.seed = static_cast<std::int64_t>(seed);
      config.train.steps = 8;
      config.train.evaluate_every = 2;
      config.train.evaluate_batches = 1;
      if (seed == 1) config.train.precision = Precision::bf16;
      if (seed == 2) config.train.accumulation = 2;
      const RunPlan plan = paired(config, world(), {.neighbours = neighbours});
      EXPECT_EQ(plan.promise, Promise::replayed);
      const RunRecord row = with_replay(testing::run_hindered(plan, seed));
      EXPECT_EQ(verdict_of(row).proof, Proof::identical_to_replay) << verdict_of(row).cause;
      EXPECT_THAT(row.parameter_hashes, SizeIs(world()));
      EXPECT_THAT(testing::missing_traffic(row), IsEmpty());
    }
}

TEST_P(Adpsgd, InTheSimulatedWorldTheSameSeedGivesTheSameRecord) {
  auto config = testing::simulated(tiny("mlp"), testing::small_cluster(1));
  config.cluster->machines = world();
  config.sim.numerics = true;
  config.sim.jitter = 0.5;
  config.train.evaluate_every = 2;
  config.train.evaluate_batches = 1;
  const RunPlan plan = paired(config, world());
  const auto simulate_plan = [](const RunPlan& one) {
    return make_row(one, simulate(one, [](const Progress&) {}));
  };
  RunRecord row = simulate_plan(plan);
  row.replay = testing::replayed(row, simulate_plan);
  EXPECT_EQ(verdict_of(row).proof, Proof::identical_to_replay) << verdict_of(row).cause;
  const RunRecord again = simulate_plan(plan);
  EXPECT_EQ(again.loss, row.loss);
  EXPECT_EQ(again.parameter_hashes, row.parameter_hashes);
}

TEST(AdpsgdRuns, AloneAreThoseOfSingleToRounding) {
  const auto config = tiny("gpt");
  const RunRecord row = testing::run(paired(config, 1));
  EXPECT_THAT(testing::wrong_losses(row, testing::reference_of(config, 1), 1e-5), IsEmpty());
}

/// Everybody begins with the same values, so two workers that are in step are those that average
/// after every step, one step late.
TEST(AdpsgdRuns, Learn) {
  auto config = tiny("gpt");
  config.train.steps = 60;
  config.optimizer.lr = 3e-3;
  for (const int world : {2, 4}) {
    const RunRecord row = testing::run(paired(config, world));
    EXPECT_LT(row.loss.back(), 0.9 * row.loss.front()) << world;
  }
}

/// Every active worker sends its replica once a step, and its neighbour's server sends it back.
TEST(AdpsgdRuns, SendTheirReplicaInEveryStep) {
  auto config = tiny("mlp");
  config.model.width = 160;
  config.train.steps = 17;  // 16 measured steps
  const RunRecord row = testing::run(paired(config, 2));
  const double bytes = 4 * static_cast<double>(row.parameters);
  EXPECT_EQ(row.bytes_minimum_per_step, bytes);
  for (const RankRecord& rank : row.ranks)
    EXPECT_NEAR(rank.bytes_sent_per_step, bytes, 0.02 * bytes) << rank.role;
}

TEST(AdpsgdRuns, RefuseWhatTheirDefinitionDoesNotSay) {
  auto config = tiny("mlp");
  config.train.precision = Precision::fp16;
  EXPECT_THAT(complaint([&] { paired(config, 2); }),
              HasSubstr("scheme adpsgd does not train in fp16"));
  EXPECT_THAT(complaint([] { paired(tiny("mlp"), 2, {.port = 7}); }),
              HasSubstr("scheme.adpsgd.port = 7: only transport tcp has ports"));
}

TEST(Pairing, OfActiveWorkersIsWithPassiveNeighbours) {
  for (int world = 2; world <= 9; ++world)
    for (const Neighbours neighbours : {Neighbours::ring, Neighbours::all}) {
      const ps::Pairing pairing({.neighbours = neighbours}, world, 5);
      ASSERT_THAT(pairing.passive(), SizeIs(world / 2));
      for (int worker = 0; worker < world; ++worker) {
        if (pairing.server_of(worker) >= 0) continue;
        std::set<int> met;
        for (int step = 0; step < 200; ++step) {
          const int server = pairing.met_by(worker, step);
          ASSERT_GE(server, 0);
          ASSERT_LT(server, world / 2);
          met.insert(pairing.passive()[static_cast<std::size_t>(server)]);
        }
        if (neighbours == Neighbours::all) {
          EXPECT_THAT(met, SizeIs(world / 2)) << "in turn, all of them";
          continue;
        }
        for (const int other : met)
          EXPECT_THAT((std::set{(worker + 1) % world, (worker + world - 1) % world}),
                      Contains(other));
      }
    }
}

/// The mean of a pair is atomic, and keeps their sum.
TEST(PairServers, AverageAndAddUpdates) {
  const auto device = make_cpu_device(1);
  const Model model = make_model(tiny("mlp").model, *device);
  const std::int64_t count = model.parameter_count();
  ps::PairServer server(model, *device, {.workers = 2, .token = 7}, 0);
  const auto ask = [&](int worker, ps::Kind kind, float value, std::int64_t elements) {
    ps::Message message;
    message.header.token = 7;
    message.header.kind = kind;
    message.header.worker = worker;
    if (kind == ps::Kind::push_pull) {
      message.frames.push_back(device->tensor({elements}, MemoryKind::communication));
      device->kernels().fill({.out = message.frames[0], .value = value});
    }
    const ps::Replies replies = server.handle(worker, std::move(message));
    EXPECT_THAT(replies, SizeIs(1));
    return replies.at(0).message;
  };
  const auto first = [](const ps::Message& message) {
    return message.frames.at(0).data<float>()[0];
  };
  const float initial = first(ask(0, ps::Kind::pull, 0, 0));
  EXPECT_EQ(first(ask(1, ps::Kind::push_pull, 3, count)), 0.5F * 3 + 0.5F * initial);
  const float mean = 0.5F * 3 + 0.5F * initial;
  EXPECT_EQ(first(ask(0, ps::Kind::push_pull, 0.25F, count)), mean + 0.25F);
  EXPECT_EQ(server.steps(), 1) << "of its owner";
  EXPECT_EQ(ask(1, ps::Kind::push_pull, 1, count - 1).header.kind, ps::Kind::error);
  EXPECT_EQ(first(ask(1, ps::Kind::pull, 0, 0)), mean + 0.25F) << "nothing has changed";
  RankRecord record;
  server.report(record);
  ASSERT_THAT(record.history, SizeIs(1));
  EXPECT_EQ(record.history[0].events, "a1a0");
}

/// Replies with the mean, and keeps its own values.
class KeepsItsOwn : public ps::PairServer {
 public:
  using PairServer::PairServer;
  void average(const Tensor& other) override {
    if (calls_++ % 2 == 0) PairServer::average(other);
  }

 private:
  int calls_ = 0;
};

TEST(WrongPairs, ThatForgetAnAveragingAreNamed) {
  auto config = tiny("mlp");
  config.train.steps = 8;
  const RunPlan plan = paired(config, 2);
  SchemeInfo row = find_scheme("adpsgd");
  row.serve = [](const RankContext& context, const Options& options, Model& model, const Loader&) {
    const auto transport = context.links.transport<ps::Transport>();
    const ps::Connection connection =
        transport->listen(context, ps::pair_transport(context, options.as<AdpsgdOptions>(), model));
    KeepsItsOwn server(model, context.device, ps::server_config(context, connection.token),
                       context.self().worker);
    return ps::serve(context, *connection.channel, server, model.parameter_count());
  };
  const RunRecord wrong = with_replay(testing::run(plan, &row));
  EXPECT_EQ(verdict_of(wrong).proof, Proof::different);
  RunRecord again = wrong;
  again.parameter_hashes = wrong.replay->parameter_hashes;
  again.loss = wrong.replay->loss;
  EXPECT_THAT(testing::violations(wrong, again),
              Contains("the parameters of replica 1 differ from the definition's"));
}

/// An event that the run did not have, and one that is missing.
TEST(WrongPairs, RecordsThatDoNotFitAreRefused) {
  auto config = tiny("mlp");
  RunRecord row = testing::run(paired(config, 2));
  std::string& events = row.ranks[0].history.at(0).events;
  events += "a1";
  EXPECT_THAT(with_replay(row).replay->error, HasSubstr("does not fit"));
  events.resize(events.size() - 4);
  EXPECT_THAT(with_replay(row).replay->error,
              HasSubstr("the record of the run ends before the 5 steps"));
}

}  // namespace
}  // namespace ringside::runner
