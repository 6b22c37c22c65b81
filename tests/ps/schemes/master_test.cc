#include "ps/schemes/master.h"

#include <gtest/gtest.h>

#include <cstring>
#include <limits>

#include "core/base/error.h"
#include "tests/ps/messages.h"
#include "tests/ps/run.h"

namespace ringside::ps {
namespace {

constexpr std::uint64_t master_token = 5;

class MasterTest : public ::testing::Test {
 protected:
  /// Asks for the inputs of micro-batch m of worker w, which are the 6 samples from sample
  /// 6 * (2 * w + m) on.
  Message inputs(int worker, std::int64_t step, std::int64_t micro_batch) const {
    Message message = testing::message_of(master_token, Kind::inputs, worker, step);
    message.header.micro_batch = micro_batch;
    message.header.begin = 6 * (2 * worker + micro_batch);
    message.header.count = 6;
    return message;
  }
  Message loss(int worker, std::int64_t step, std::int64_t micro_batch) {
    Message message = testing::message_of(master_token, Kind::loss, worker, step);
    message.header.micro_batch = micro_batch;
    message.header.scalar = 0.125;
    message.frames = {logits()};
    return message;
  }
  /// The gradient is multiplied by 0.125, the scale in the header that loss() makes.
  LossTerms terms() const { return {model_.terms, plan_.train.global_batch, 0.125F}; }
  Tensor logits() {
    Tensor out = device_->tensor({6, plan_.model.vocabulary}, MemoryKind::activation);
    for (std::int64_t i = 0; i < out.count(); ++i)
      out.data<float>()[i] = static_cast<float>(i * 7 % 13) * 0.3F;
    return out;
  }
  void expect_refused(int worker, Message message, const char* cause) {
    const Replies replies = master_.handle(worker, std::move(message));
    ASSERT_EQ(replies.size(), 1u);
    EXPECT_EQ(replies[0].message.header.kind, Kind::error);
    EXPECT_NE(replies[0].message.header.text.find(cause), std::string::npos)
        << replies[0].message.header.text;
  }
  Message answer(int worker, Message message) {
    const Replies replies = master_.handle(worker, std::move(message));
    EXPECT_EQ(replies.size(), 1u);
    EXPECT_NE(replies[0].message.header.kind, Kind::error) << replies[0].message.header.text;
    return replies[0].message;
  }

  RunPlan plan_ = testing::tiny_plan(2, 1, true, 2);
  std::unique_ptr<Device> device_ = make_cpu_device(1);
  testing::RandomTokens data_{plan_.model};
  Loader loader_{data_, *device_, plan_.train.global_batch, 1};
  Model model_ = make_mlp(plan_.model, *device_);
  Master master_{model_,   partition(model_, 1),
                 *device_, {.workers = 2, .token = master_token, .steps = 4},
                 loader_,  plan_};
};

bool same_bytes(const Tensor& a, const Tensor& b) {
  return a.bytes() == b.bytes() &&
         std::memcmp(a.data<std::uint8_t>(), b.data<std::uint8_t>(), a.bytes()) == 0;
}

TEST_F(MasterTest, HandsOutInputsAndComputesTheLossAsAWorkerWould) {
  for (std::int64_t m = 0; m < 2; ++m) {
    const Batch batch = loader_.read({3, 6 * (2 + m), 6});
    const Message given = answer(1, inputs(1, 3, m));
    EXPECT_TRUE(same_bytes(given.frames.at(0), batch.inputs));
    const Message computed = answer(1, loss(1, 3, m));
    const Loss expected = cross_entropy(*device_, logits(), batch.targets, terms(), true);
    EXPECT_EQ(computed.header.scalar, value_of(*device_, expected).loss);
    EXPECT_TRUE(same_bytes(computed.frames.at(0), expected.gradient));
  }
}

TEST_F(MasterTest, KeepsTheBatchesOfWorkersApart) {
  answer(0, inputs(0, 0, 0));
  answer(1, inputs(1, 0, 0));
  const double first = answer(0, loss(0, 0, 0)).header.scalar;
  const Batch batch = loader_.read({0, 0, 6});
  const Loss expected = cross_entropy(*device_, logits(), batch.targets, terms(), true);
  EXPECT_EQ(first, value_of(*device_, expected).loss);
}

TEST_F(MasterTest, RefusesWhatIsWrongAndStaysSane) {
  const auto changed = [](Message message, auto change) {
    change(message);
    return message;
  };
  expect_refused(0, inputs(0, 4, 0), "step 4");
  expect_refused(0, inputs(0, -1, 0), "step -1");
  expect_refused(0, inputs(0, 0, 2), "micro-batch 2");
  expect_refused(0, changed(inputs(0, 0, 0), [](Message& m) { m.header.begin = 1; }),
                 "6 samples of step 0 from sample 1 on");
  expect_refused(0, changed(inputs(0, 0, 0), [](Message& m) { m.header.count = 24; }),
                 "24 samples of step 0 from sample 0 on");
  constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max();
  expect_refused(
      0, changed(inputs(0, 0, 0), [](Message& m) { m.header.begin = m.header.count = most; }),
      "from sample 9223372036854775807 on");
  expect_refused(0, loss(0, 0, 0), "no targets for micro-batch 0 of step 0");
  answer(0, inputs(0, 0, 0));
  expect_refused(0, inputs(0, 0, 1), "has not asked for the loss");
  expect_refused(0, loss(0, 0, 1), "no targets for micro-batch 1");
  expect_refused(0, changed(loss(0, 0, 0), [](Message& m) { m.frames.clear(); }),
                 "138 logits of dtype fp32");
  expect_refused(
      0, changed(loss(0, 0, 0), [](Message& m) { m.frames[0] = m.frames[0].range(0, 137); }),
      "138 logits of dtype fp32");
  expect_refused(0, changed(loss(0, 0, 0), [](Message& m) { m.header.scalar = -1; }), "scale");
  expect_refused(0, changed(loss(0, 0, 0), [](Message& m) { m.header.scalar = 1e300; }), "scale");
  answer(0, loss(0, 0, 0));
}

}  // namespace
}  // namespace ringside::ps
