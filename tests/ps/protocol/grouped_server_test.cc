// A server whose workers push in groups: each chunk has workers of its own.
#include <gmock/gmock.h>

#include "tests/ps/server_fixture.h"

namespace ringside::ps {
namespace {

using ::testing::HasSubstr;

/// Four workers in groups of two; the first members push chunks 0 and 2, the second ones chunk 1.
class GroupedServerTest : public ServerTest {
 protected:
  static constexpr int workers = 4, group = 2;
  GroupedServerTest() {
    for (std::size_t c = 0; c < chunks_.size(); ++c) {
      chunks_[c].group = group;
      chunks_[c].member = c == 1;
    }
  }

  /// The values that workers 0 and 1 of a server without groups get after `steps` steps, if they
  /// push what the chunk's member in both groups would.
  std::vector<std::vector<float>> of_two_workers(std::size_t chunk, std::int64_t steps) {
    Chunk alone = chunks_[chunk];
    alone.group = 1;
    alone.member = 0;
    ParameterServer server(model_, {alone}, *device_, config(2));
    std::vector<std::vector<float>> values;
    for (std::int64_t step = 0; step < steps; ++step) {
      for (int w = 0; w < 2; ++w) {
        Message message = about(Kind::push, w, alone, step);
        message.frames.push_back(gradient(w * group + chunks_[chunk].member, alone, step));
        server.handle(w, std::move(message));
      }
      const Replies replies = server.handle(0, about(Kind::pull, 0, alone, step + 1));
      values.push_back(values_of(replies.at(0).message.frames.at(0)));
    }
    return values;
  }
};

TEST_F(GroupedServerTest, UpdatesAChunkWithTheGradientsOfItsWorkers) {
  constexpr std::int64_t steps = 3;
  ParameterServer server = make_server(workers);
  const std::vector<int> order = {3, 2, 0, 1};  // of arrival
  for (std::size_t c = 0; c < chunks_.size(); ++c) {
    const auto expected = of_two_workers(c, steps);
    for (std::int64_t step = 0; step < steps; ++step) {
      Replies replies;
      for (const int worker : order) {
        if (!chunks_[c].is_of(worker)) continue;
        EXPECT_TRUE(replies.empty()) << "before both have pushed";
        replies = server.handle(worker, push(worker, c, step));
      }
      ASSERT_EQ(replies.size(), 2u);
      for (const Reply& reply : replies) {
        EXPECT_TRUE(chunks_[c].is_of(reply.worker));
        EXPECT_EQ(values_of(reply.message.frames.at(0)), expected[static_cast<std::size_t>(step)]);
      }
    }
  }
  EXPECT_EQ(server.steps(), steps);
}

TEST_F(GroupedServerTest, AddsUpSeveralPushesOfAStep) {
  ServerConfig twice = config(2);
  twice.pushes = 2;
  // Worker 0 alone pushes chunk 0; worker 1, from which the server gets no message, comes after it.
  ParameterServer server(model_, {chunks_[0]}, *device_, twice);
  const auto reply_to_push = [&](std::int64_t micro_batch) {
    Message message = push(0, 0, micro_batch);  // another gradient for each
    message.header.step = 0;
    message.header.micro_batch = micro_batch;
    return server.handle(0, std::move(message));
  };
  ASSERT_EQ(reply_to_push(0).size(), 1u);
  const Replies replies = reply_to_push(1);
  ASSERT_EQ(replies.size(), 1u);

  Chunk alone = chunks_[0];
  alone.group = 1;
  ParameterServer once(model_, {alone}, *device_, config(1));
  Message sum = about(Kind::push_pull, 0, alone, 0);
  sum.frames.push_back(gradient(0, alone, 0));
  device_->kernels().add({.in = gradient(0, alone, 1), .out = sum.frames[0]});
  EXPECT_EQ(values_of(replies[0].message.frames.at(0)),
            values_of(once.handle(0, std::move(sum)).at(0).message.frames.at(0)));
}

TEST_F(GroupedServerTest, RefusesWorkersThatDoNotPushTheChunk) {
  ParameterServer server = make_server(workers);
  const char* text = "pushed and pulled by worker 1 of every 2 alone";
  EXPECT_THAT(refusal(server, 2, push(2, 1, 0)), HasSubstr(text));
  EXPECT_THAT(refusal(server, 2, pull(2, 1, 0)), HasSubstr(text));
  EXPECT_EQ(refusal(server, 3, pull(3, 1, 0)), "");
}

/// Worker 1 pushes nothing here, so nothing but its word about step 0 says that it is past it.
TEST_F(GroupedServerTest, MeasuresAStepOnceAllWorkersHaveSettledTheOneBefore) {
  ServerConfig clipped = config(2);
  clipped.optimizer.clip_norm = 1;
  ParameterServer server(model_, {chunks_[0]}, *device_, clipped);
  const auto about_sums = [&](Kind kind, int worker, std::int64_t step) {
    Message message = testing::message_of(token, kind, worker, step);
    message.header.scalar = 1;
    return message;
  };
  const auto settle = [&](int worker, std::int64_t step, const Message& sums) {
    Message message = about_sums(Kind::settle, worker, step);
    message.frames = sums.frames;
    return server.handle(worker, std::move(message));
  };
  EXPECT_TRUE(server.handle(0, push(0, 0, 0, Kind::push)).empty());
  const Replies first = server.handle(0, about_sums(Kind::measure, 0, 0));
  ASSERT_EQ(first.size(), 1u);
  ASSERT_EQ(server.handle(1, about_sums(Kind::measure, 1, 0)).size(), 1u);
  EXPECT_TRUE(settle(0, 0, first[0].message).empty());

  EXPECT_TRUE(server.handle(0, push(0, 0, 1, Kind::push)).empty());
  EXPECT_TRUE(server.handle(0, about_sums(Kind::measure, 0, 1)).empty()) << "worker 1 is behind";
  const Replies second = settle(1, 0, first[0].message);
  ASSERT_EQ(second.size(), 1u);
  EXPECT_EQ(second[0].worker, 0);
  EXPECT_EQ(second[0].message.header.kind, Kind::measure);
  EXPECT_TRUE(settle(0, 1, second[0].message).empty());
  const Replies late = server.handle(1, about_sums(Kind::measure, 1, 1));
  ASSERT_EQ(late.size(), 1u);
  EXPECT_EQ(late[0].message.header.kind, Kind::measure);
}

}  // namespace
}  // namespace ringside::ps
