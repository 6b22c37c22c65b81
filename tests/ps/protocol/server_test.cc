// A server's answers to gradients, pulls and sums.
#include <algorithm>
#include <array>

#include "tests/ps/server_fixture.h"

namespace ringside::ps {
namespace {

TEST_F(ServerTest, MakesItsOwnInitialValues) {
  ParameterServer server = make_server(1);
  const auto expected = sequential(1, 0);
  for (std::size_t c = 0; c < chunks_.size(); ++c) {
    const Replies replies = server.handle(0, pull(0, c, 0));
    ASSERT_EQ(replies.size(), 1u);
    EXPECT_EQ(values_of(replies[0].message.frames.at(0)), expected[c]);
  }
}

class ServerDtypeTest : public ServerTest, public ::testing::WithParamInterface<DType> {
 protected:
  ServerDtypeTest() { dtype_ = GetParam(); }
};
INSTANTIATE_TEST_SUITE_P(Dtypes, ServerDtypeTest, ::testing::Values(DType::f32, DType::bf16),
                         [](const auto& info) { return std::string(name_of(info.param)); });

TEST_P(ServerDtypeTest, EveryOrderOfArrivalHasTheBitsOfASequentialSum) {
  const auto expected = sequential(3, 2);
  std::array<int, 3> order{0, 1, 2};
  do {
    ParameterServer server = make_server(3);
    for (std::int64_t step = 0; step < 2; ++step)
      for (std::size_t c = 0; c < chunks_.size(); ++c) {
        Replies replies;
        for (int w : order) {
          EXPECT_TRUE(replies.empty()) << "answered before all had pushed";
          replies = server.handle(w, push(w, c, step));
        }
        ASSERT_EQ(replies.size(), 3u);
        for (const Reply& reply : replies) {
          EXPECT_EQ(reply.message.header.worker, reply.worker);
          EXPECT_EQ(reply.message.header.begin, chunks_[c].begin);
          EXPECT_EQ(reply.message.frames[0].buffer(), replies[0].message.frames[0].buffer())
              << "views of the master values, not copies";
          EXPECT_EQ(reply.message.frames[0].dtype(), dtype_);
          if (step == 1) {
            EXPECT_EQ(values_of(reply.message.frames[0]), expected[c]);
          }
        }
      }
    EXPECT_EQ(server.steps(), 2);
  } while (std::next_permutation(order.begin(), order.end()));
}

TEST_F(ServerTest, ChunksAreIndependentOfOneAnother) {
  ParameterServer server = make_server(2);
  EXPECT_TRUE(server.handle(0, push(0, 0, 0)).empty());
  EXPECT_TRUE(server.handle(1, push(1, 2, 0)).empty());
  EXPECT_EQ(server.handle(0, push(0, 2, 0)).size(), 2u);
  EXPECT_EQ(server.steps(), 0);
  EXPECT_EQ(server.handle(1, push(1, 0, 0)).size(), 2u);
  EXPECT_EQ(server.handle(0, push(0, 2, 1)).size(), 0u) << "the next step of a chunk may begin";
}

TEST_F(ServerTest, ShardedServersHaveTheBitsOfOne) {
  const auto chunks = partition({50, 10}, 2, 128);
  const auto expected = sequential(1, 1);
  int answered = 0;
  for (int s = 0; s < 2; ++s) {
    ServerConfig own = config(1);
    own.server = s;
    ParameterServer server(model_, chunks, *device_, own);
    for (std::size_t c = 0; c < chunks.size(); ++c) {
      const Replies replies = server.handle(0, push(0, c, 0));
      ASSERT_EQ(replies.size(), 1u);
      if (chunks[c].server == s) {
        EXPECT_EQ(values_of(replies[0].message.frames.at(0)), expected[c]);
        ++answered;
      } else {
        EXPECT_EQ(replies[0].message.header.kind, Kind::error);
      }
    }
  }
  EXPECT_EQ(answered, 3);
}

TEST_F(ServerTest, AServerWithoutChunksServesSums) {
  ServerConfig own = config(1);
  own.server = 3;
  ParameterServer server(model_, chunks_, *device_, own);
  EXPECT_EQ(server.steps(), own.steps);
  const Message reply = server.handle(0, summand(0, 0, {1.5})).at(0).message;
  EXPECT_EQ(doubles_of(reply), std::vector<double>{1.5});
}

TEST_F(ServerTest, APullWaitsForTheStepThatItAsksFor) {
  ParameterServer server = make_server(2);
  EXPECT_TRUE(server.handle(0, push(0, 1, 0, Kind::push)).empty());
  EXPECT_TRUE(server.handle(0, pull(0, 1, 1)).empty());
  EXPECT_EQ(server.handle(1, pull(1, 1, 0)).size(), 1u) << "values before step 0 are there";
  const Replies replies = server.handle(1, push(1, 1, 0, Kind::push));
  ASSERT_EQ(replies.size(), 1u);
  EXPECT_EQ(replies[0].worker, 0);
  EXPECT_EQ(replies[0].message.header.kind, Kind::pull);
  EXPECT_EQ(values_of(replies[0].message.frames.at(0)), sequential(2, 1)[1]);
}

TEST_F(ServerTest, SumsDoublesInRankOrder) {
  const double parts[] = {1e16, 1.0, -1e16};
  std::array<int, 3> order{0, 1, 2};
  do {
    ParameterServer server = make_server(3);
    for (std::int64_t round = 0; round < 2; ++round) {
      Replies replies;
      for (int w : order) {
        EXPECT_TRUE(replies.empty());
        replies = server.handle(w, summand(w, round, {parts[w], 0.5}));
      }
      ASSERT_EQ(replies.size(), 3u);
      for (const Reply& reply : replies) {
        EXPECT_EQ(doubles_of(reply.message), (std::vector<double>{(1e16 + 1.0) - 1e16, 1.5}));
        EXPECT_EQ(reply.message.header.worker, reply.worker);
      }
    }
  } while (std::next_permutation(order.begin(), order.end()));
}

}  // namespace
}  // namespace ringside::ps
