// A server whose optimizer needs sums over the whole model before an update, message by message.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/device/cpu/cpu_device.h"
#include "core/num/exact_sum.h"
#include "core/scheme/parameter_map.h"
#include "ps/protocol/parameter_server.h"
#include "tests/ps/messages.h"
#include "tests/support/layer_units.h"

namespace ringside::ps {
namespace {

constexpr std::uint64_t rounds_token = 77;

/// Two workers; chunks [0, 32) and [32, 50) of one unit.
class RoundsTest : public ::testing::Test {
 protected:
  RoundsTest() {
    model_.units.push_back(std::make_unique<testing::ValuesUnit>(50, *device_));
    config_.optimizer.kind = "sgd";
    config_.optimizer.lr = 1;
    config_.optimizer.momentum = 0;
    config_.optimizer.clip_norm = 1;
  }

  ParameterServer make_server() { return {model_, partition({50}, 1, 128), *device_, config_}; }

  Message about(Kind kind, int worker, std::int64_t step, std::int64_t micro_batch = 0) const {
    Message message = testing::message_of(rounds_token, kind, worker, step);
    message.header.micro_batch = micro_batch;
    message.header.scalar = 1;
    return message;
  }
  Message push(int worker, int chunk, std::int64_t step, float value, Kind kind = Kind::push,
               std::int64_t number = 0) {
    Message message = about(kind, worker, step, number);
    message.header.begin = chunk * 32;
    message.header.count = chunk == 0 ? 32 : 18;
    message.frames.push_back(
        device_->tensor({message.header.count}, MemoryKind::gradient, config_.dtype));
    device_->kernels().fill({.out = message.frames[0], .value = value});
    return message;
  }
  Message totals(Kind kind, int worker, std::int64_t step, std::int64_t round,
                 const std::vector<double>& sums) {
    std::vector<double> values;
    for (const double sum : sums) {
      ExactSum exact;
      exact.add(sum);
      std::array<double, ExactSum::digits> stored;
      exact.store(stored);
      values.insert(values.end(), stored.begin(), stored.end());
    }
    Message message = about(kind, worker, step, round);
    message.frames.push_back(device_->tensor({static_cast<std::int64_t>(values.size())},
                                             MemoryKind::communication, DType::f64));
    device_->write(message.frames[0], std::as_bytes(std::span(values)));
    return message;
  }
  Message pull(int worker, std::int64_t steps) {
    Message message = about(Kind::pull, worker, steps);
    message.header.count = 32;
    return message;
  }
  void push_all(Server& server, std::int64_t step, float value) {
    for (int w = 0; w < 2; ++w)
      for (int c = 0; c < 2; ++c) EXPECT_TRUE(server.handle(w, push(w, c, step, value)).empty());
  }
  static double sum_in(const Replies& replies) {
    if (replies.size() != 1 || replies[0].message.header.kind != Kind::measure) return -1;
    const Tensor& sums = replies[0].message.frames.at(0);
    return ExactSum::value(
        std::span<const double, ExactSum::digits>(sums.data<double>(), ExactSum::digits));
  }
  static void refused(const Replies& replies, const char* cause) {
    ASSERT_EQ(replies.size(), 1u) << cause;
    EXPECT_EQ(replies[0].message.header.kind, Kind::error);
    EXPECT_NE(replies[0].message.header.text.find(cause), std::string::npos)
        << replies[0].message.header.text;
  }

  std::unique_ptr<Device> device_ = make_cpu_device(1);
  Model model_;
  ServerConfig config_{.workers = 2, .token = rounds_token, .steps = 10};
};

TEST_F(RoundsTest, MeasuresWhenAllIsThereAndUpdatesOnTheTotals) {
  ParameterServer server = make_server();
  EXPECT_TRUE(server.handle(0, about(Kind::measure, 0, 0)).empty()) << "nothing is there";
  EXPECT_TRUE(server.handle(0, push(0, 0, 0, 1)).empty());
  EXPECT_TRUE(server.handle(0, push(0, 1, 0, 1)).empty());
  EXPECT_TRUE(server.handle(1, push(1, 0, 0, 1)).empty());
  const Replies waited = server.handle(1, push(1, 1, 0, 1));
  EXPECT_EQ(sum_in(waited), 50 * 4.0) << "of gradients of 1 + 1";
  EXPECT_EQ(waited[0].worker, 0);
  EXPECT_EQ(sum_in(server.handle(1, about(Kind::measure, 1, 0))), 200);
  EXPECT_TRUE(server.handle(1, pull(1, 1)).empty()) << "no update yet";

  // The total includes the gradients of another server; their squares add up to 200 too. So the
  // norm of the whole gradient is the root of 400.
  const Replies replies = server.handle(0, totals(Kind::settle, 0, 0, 0, {400}));
  ASSERT_EQ(replies.size(), 1u) << "the waiting pull is answered";
  const auto factor = static_cast<float>(1 / (20 + 1e-6));
  EXPECT_EQ(replies[0].message.frames.at(0).data<float>()[0], 1 - factor * 2);
  EXPECT_TRUE(server.handle(1, totals(Kind::settle, 1, 0, 0, {400})).empty());
  EXPECT_EQ(server.steps(), 1);
}

TEST_F(RoundsTest, TheNextStepMayBeginBeforeTheLastWorkerHasSettled) {
  ParameterServer server = make_server();
  push_all(server, 0, 1);
  server.handle(0, about(Kind::measure, 0, 0));
  server.handle(0, totals(Kind::settle, 0, 0, 0, {200}));
  EXPECT_TRUE(server.handle(0, push(0, 0, 1, 1)).empty());
  EXPECT_EQ(sum_in(server.handle(1, about(Kind::measure, 1, 0))), 200)
      << "the sums have not changed";
  EXPECT_TRUE(server.handle(1, totals(Kind::settle, 1, 0, 0, {200})).empty());
  EXPECT_TRUE(server.handle(1, push(1, 0, 1, 1)).empty());
}

/// The state of a server, as a checkpoint has it.
using SavedState = std::map<std::string, std::vector<float>>;

/// A restored server goes on with the rounds of its step, and its optimizer knows how many steps
/// were skipped: AdamW divides by a function of the number of updates.
TEST_F(RoundsTest, ARestoredServerGoesOnWithTheNextStep) {
  config_.dtype = DType::f16;
  config_.optimizer = {.kind = "adamw", .clip_norm = 1};
  const auto do_step = [&](Server& server, std::int64_t step, float value) {
    push_all(server, step, value);
    const double sum = sum_in(server.handle(0, about(Kind::measure, 0, step)));
    EXPECT_EQ(sum_in(server.handle(1, about(Kind::measure, 1, step))), sum);
    for (int w = 0; w < 2; ++w)
      EXPECT_TRUE(server.handle(w, totals(Kind::settle, w, step, 0, {sum})).empty());
  };
  const auto state_of = [](Server& server) {
    SavedState out;
    server.visit_state([&](const StateRange& range) {
      out[range.name].resize(static_cast<std::size_t>(range.values.count()));
      range.device->read(range.values, std::as_writable_bytes(std::span(out[range.name])));
    });
    return out;
  };
  ParameterServer first = make_server();
  do_step(first, 0, 60000);  // overflows
  do_step(first, 1, 0.25F);
  EXPECT_TRUE(first.is_after(2)) << "a skipped step is a step";
  const SavedState saved = state_of(first);
  do_step(first, 2, 0.5F);
  const SavedState unbroken = state_of(first);
  EXPECT_NE(unbroken, saved);

  for (const std::int64_t skipped : {0, 1}) {
    ParameterServer second = make_server();
    second.visit_state([&](const StateRange& range) {
      range.device->write(range.values, std::as_bytes(std::span(saved.at(range.name))));
    });
    second.restored(2, skipped);
    refused(second.handle(0, about(Kind::measure, 0, 1)), "sums of step 1, but sums of step 2");
    do_step(second, 2, 0.5F);
    EXPECT_EQ(state_of(second) == unbroken, skipped == 1) << skipped;
  }
}

TEST_F(RoundsTest, AnOverflowChangesNothing) {
  config_.dtype = DType::f16;
  ParameterServer server = make_server();
  push_all(server, 0, 60000);
  EXPECT_TRUE(std::isinf(sum_in(server.handle(0, about(Kind::measure, 0, 0)))));
  const double inf = std::numeric_limits<double>::infinity();
  EXPECT_TRUE(server.handle(0, pull(0, 1)).empty());
  const Replies replies = server.handle(0, totals(Kind::settle, 0, 0, 0, {inf}));
  ASSERT_EQ(replies.size(), 1u);
  EXPECT_EQ(to_float(replies[0].message.frames.at(0).data<fp16>()[0]), 1);
  push_all(server, 1, 1);
  EXPECT_EQ(sum_in(server.handle(0, about(Kind::measure, 0, 1))), 200) << "it goes on";
}

TEST_F(RoundsTest, LambHasTwoRounds) {
  config_.optimizer.kind = "lamb";
  ParameterServer server = make_server();
  push_all(server, 0, 1);
  EXPECT_EQ(sum_in(server.handle(0, about(Kind::measure, 0, 0))), 200);
  refused(server.handle(0, totals(Kind::settle, 0, 0, 0, {200})), "is not the last round");
  const Replies norms = server.handle(0, totals(Kind::measure, 0, 0, 1, {200}));
  ASSERT_EQ(norms.size(), 1u);
  EXPECT_EQ(norms[0].message.frames.at(0).count(), std::int64_t{2 * ExactSum::digits});
  EXPECT_EQ(sum_in(norms), 50) << "of parameters of 1";
  EXPECT_TRUE(server.handle(0, totals(Kind::settle, 0, 0, 1, {50, 50})).empty());
  EXPECT_EQ(server.handle(0, pull(0, 1)).size(), 1u);
}

TEST_F(RoundsTest, RefusesWhatIsWrongAndStaysSane) {
  ParameterServer server = make_server();
  refused(server.handle(0, about(Kind::measure, 0, 1)), "sums of step 1, but sums of step 0");
  refused(server.handle(0, about(Kind::measure, 0, -1)), "step -1");
  refused(server.handle(0, about(Kind::measure, 0, 0, 1)), "round 1 of step 0");
  refused(server.handle(0, about(Kind::measure, 0, 0, -1)), "round -1 of step 0");
  refused(server.handle(0, totals(Kind::measure, 0, 0, 0, {1})), "must have no totals");
  refused(server.handle(0, totals(Kind::settle, 0, 0, 0, {1})),
          "but so far it has asked for 0 rounds, and the server has measured 0");
  Message scaled = about(Kind::measure, 0, 0);
  scaled.header.scalar = 0;
  refused(server.handle(0, scaled), "the loss scale is 0");
  EXPECT_TRUE(server.handle(0, about(Kind::measure, 0, 0)).empty());
  refused(server.handle(0, about(Kind::measure, 0, 0)),
          "but so far it has asked for 1 of 1 rounds");
  scaled = about(Kind::measure, 1, 0);
  scaled.header.scalar = 2;
  refused(server.handle(1, scaled), "another worker's is 1");
  refused(server.handle(0, totals(Kind::settle, 0, 0, 0, {1})),
          "it has asked for 1 rounds, and the server has measured 0");
  for (int c = 0; c < 2; ++c)
    for (int w = 0; w < 2; ++w) server.handle(w, push(w, c, 0, 1));
  refused(server.handle(0, push(0, 0, 1, 1)),
          "the worker pushed step 1, but the server has not finished step 0 yet, because no worker "
          "has sent the last totals of the optimizer's sums");
  refused(server.handle(0, totals(Kind::settle, 0, 0, 0, {1, 2})), "one frame of 19 fp64 totals");
  refused(server.handle(0, about(Kind::settle, 0, 0)), "one frame of 19 fp64 totals");
  EXPECT_EQ(sum_in(server.handle(1, about(Kind::measure, 1, 0))), 200);
  EXPECT_TRUE(server.handle(0, totals(Kind::settle, 0, 0, 0, {200})).empty());
  refused(server.handle(1, totals(Kind::settle, 1, 0, 0, {201})), "differ from another worker's");
  EXPECT_TRUE(server.handle(1, totals(Kind::settle, 1, 0, 0, {200})).empty());
  refused(server.handle(1, totals(Kind::settle, 1, 0, 0, {200})), "the worker settled round");
  EXPECT_EQ(server.handle(0, pull(0, 1)).size(), 1u);

  config_.optimizer.clip_norm = 0;
  ParameterServer plain = make_server();
  refused(plain.handle(0, about(Kind::measure, 0, 0)), "needs no sums over the model");
}

TEST_F(RoundsTest, SeveralPushesAStepAreSummedOverWorkersAndThenAddedUp) {
  config_.optimizer.clip_norm = 0;
  config_.pushes = 2;
  ParameterServer server = make_server();
  EXPECT_TRUE(server.handle(0, push(0, 0, 0, 1, Kind::push_pull)).empty());
  refused(server.handle(0, push(0, 0, 0, 1, Kind::push_pull, 1)),
          "before another worker pushed push 0 of step 0");
  refused(server.handle(0, push(0, 0, 0, 1, Kind::push_pull, 2)),
          "step 0 has no push 2: a step has 2 pushes");
  Replies replies = server.handle(1, push(1, 0, 0, 2, Kind::push_pull));
  ASSERT_EQ(replies.size(), 2u);
  EXPECT_TRUE(replies[0].message.frames.empty())
      << "the reply only says that all workers' pushes have arrived";
  refused(server.handle(1, push(1, 0, 1, 1)), "push 0 of step 1 was pushed, but push 1 of step 0");
  EXPECT_TRUE(server.handle(1, push(1, 0, 0, 4, Kind::push_pull, 1)).empty());
  replies = server.handle(0, push(0, 0, 0, 8, Kind::push_pull, 1));
  ASSERT_EQ(replies.size(), 2u);
  EXPECT_EQ(replies[0].message.frames.at(0).data<float>()[0], 1.0F - 15);
}

}  // namespace
}  // namespace ringside::ps
