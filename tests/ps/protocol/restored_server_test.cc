// Servers that go on from the state of others: they equal a server that did the steps.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>

#include "core/base/error.h"
#include "tests/ps/server_fixture.h"
#include "tests/support/complaint.h"

namespace ringside::ps {
namespace {

using ::testing::HasSubstr;
using ::testing::Pair;
using ::testing::SizeIs;
using ::testing::UnorderedElementsAre;

class RestoredServerTest : public ServerTest {
 protected:
  static constexpr std::int64_t all = 60;
  static constexpr int both = 2;  // workers
  /// Values of the whole model, by name.
  using State = std::map<std::string, std::vector<float>>;
  using Servers = std::vector<std::unique_ptr<ParameterServer>>;

  Servers make_servers(std::vector<Chunk> chunks, int count) {
    chunks_ = std::move(chunks);
    Servers out;
    for (int s = 0; s < count; ++s) {
      ServerConfig own = config(both);
      own.server = s;
      own.pushes = pushes_;
      out.push_back(std::make_unique<ParameterServer>(model_, chunks_, *device_, own));
    }
    return out;
  }
  Servers one_server() { return make_servers(partition({50, 10}, 1, 128), 1); }
  /// Two servers with smaller chunks, those of each not next to each other in the model.
  Servers two_servers() { return make_servers(partition({50, 10}, 2, 64), 2); }

  static State state_of(const Servers& servers) {
    State out;
    for (const auto& server : servers)
      server->visit_state([&](const StateRange& range) {
        std::vector<float>& values = out[range.name];
        values.resize(all, std::numeric_limits<float>::quiet_NaN());
        range.device->read(range.values, std::as_writable_bytes(std::span(values).subspan(
                                             static_cast<std::size_t>(range.begin),
                                             static_cast<std::size_t>(range.values.count()))));
      });
    return out;
  }
  static void restore(const Servers& servers, const State& state, std::int64_t steps) {
    for (const auto& server : servers) {
      server->visit_state([&](const StateRange& range) {
        range.device->write(
            range.values,
            std::as_bytes(std::span(state.at(range.name))
                              .subspan(static_cast<std::size_t>(range.begin),
                                       static_cast<std::size_t>(range.values.count()))));
      });
      server->restored(steps, 0);
    }
  }

  ParameterServer& server_of(const Servers& servers, std::size_t chunk) {
    return *servers[static_cast<std::size_t>(chunks_[chunk].server)];
  }
  void do_step(const Servers& servers, std::int64_t step) {
    for (std::size_t c = 0; c < chunks_.size(); ++c)
      for (std::int64_t p = 0; p < pushes_; ++p)
        for (int w = 0; w < both; ++w) {
          Message message = push(w, c, step, Kind::push);
          message.header.micro_batch = p;
          EXPECT_EQ(refusal(server_of(servers, c), w, std::move(message)), "");
        }
  }
  /// The values of every chunk after `steps` steps, as a worker gets them.
  std::vector<std::vector<float>> read(const Servers& servers, std::int64_t steps) {
    std::vector<std::vector<float>> out;
    for (std::size_t c = 0; c < chunks_.size(); ++c) {
      const Replies replies = server_of(servers, c).handle(1, pull(1, c, steps));
      if (replies.size() != 1 || replies[0].message.frames.size() != 1) return {};
      out.push_back(values_of(replies[0].message.frames[0]));
    }
    return out;
  }
  static std::vector<float> joined(const std::vector<std::vector<float>>& chunks) {
    std::vector<float> out;
    for (const auto& chunk : chunks) out.insert(out.end(), chunk.begin(), chunk.end());
    return out;
  }

  std::int64_t pushes_ = 1;
};

TEST_F(RestoredServerTest, HasTheValuesAndMakesTheNextUpdatesOfOneThatDidTheSteps) {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    dtype_ = dtype;
    const Servers first = one_server();
    for (std::int64_t step = 0; step < 3; ++step) do_step(first, step);
    const State state = state_of(first);
    EXPECT_THAT(state, UnorderedElementsAre(Pair("parameters", SizeIs(all)),
                                            Pair("first_moment", SizeIs(all)),
                                            Pair("second_moment", SizeIs(all))));
    for (const auto& [name, values] : state)
      for (const float one : values) EXPECT_FALSE(std::isnan(one)) << name << " is not whole";

    const Servers second = two_servers();
    EXPECT_NE(read(second, 0), sequential(both, 3));
    restore(second, state, 3);
    EXPECT_EQ(read(second, 3), sequential(both, 3));
    EXPECT_EQ(state_of(second), state);
    do_step(second, 3);
    do_step(second, 4);
    EXPECT_EQ(read(second, 5), sequential(both, 5));

    // And back, to servers with other chunks.
    const State later = state_of(second);
    const std::vector<float> values = joined(read(second, 5));
    const Servers third = one_server();
    restore(third, later, 5);
    EXPECT_EQ(joined(read(third, 5)), values);
  }
}

/// Ranges that are next to each other are one, whatever the size of chunks.
TEST_F(RestoredServerTest, ShowsFewRanges) {
  std::int64_t ranges = 0;
  for (const auto& server : one_server())
    server->visit_state([&](const StateRange& range) {
      EXPECT_EQ(range.values.count(), all);
      ++ranges;
    });
  EXPECT_EQ(ranges, 3);
}

TEST_F(RestoredServerTest, RefusesWhatIsNotOfTheNextStep) {
  const Servers first = one_server();
  for (std::int64_t step = 0; step < 3; ++step) do_step(first, step);
  const Servers second = one_server();
  restore(second, state_of(first), 3);
  ParameterServer& server = *second[0];
  EXPECT_EQ(server.steps(), 3);
  EXPECT_THAT(refusal(server, 0, push(0, 0, 2)), HasSubstr("step 2 has already been pushed"));
  EXPECT_THAT(refusal(server, 0, push(0, 0, 0)), HasSubstr("step 0 has already been pushed"));
  EXPECT_THAT(refusal(server, 0, push(0, 0, 4)), HasSubstr("step 4 was pushed, but step 3 is due"));
  EXPECT_THAT(refusal(server, 0, pull(0, 0, 4)), HasSubstr("has pushed 3 steps"));
  // None of them has changed anything.
  EXPECT_EQ(read(second, 3), sequential(both, 3));
  do_step(second, 3);
  EXPECT_EQ(read(second, 4), sequential(both, 4));
}

/// The moment for a checkpoint: all chunks have the updates of the same steps.
TEST_F(RestoredServerTest, IsAfterAStepOnceTheLastChunkIs) {
  const Servers servers = one_server();
  ParameterServer& server = *servers[0];
  EXPECT_TRUE(server.is_after(0));
  EXPECT_EQ(server.parameter_count(), all);
  for (std::size_t c = 0; c < chunks_.size(); ++c) {
    EXPECT_FALSE(server.is_after(1));
    server.handle(0, push(0, c, 0));
    EXPECT_EQ(server.is_after(0), c == 0) << "a push is no update";
    server.handle(1, push(1, c, 0));
    EXPECT_FALSE(server.is_after(0));
  }
  EXPECT_TRUE(server.is_after(1));
  EXPECT_FALSE(server.is_after(2));
}

TEST_F(RestoredServerTest, CountsThePushesOfAStep) {
  pushes_ = 2;
  const Servers first = one_server();
  for (std::int64_t step = 0; step < 2; ++step) do_step(first, step);
  EXPECT_TRUE(first[0]->is_after(2));
  const State state = state_of(first);
  do_step(first, 2);
  EXPECT_FALSE(first[0]->is_after(2));

  const Servers second = two_servers();
  restore(second, state, 2);
  EXPECT_TRUE(second[0]->is_after(2));
  Message late = push(0, 0, 2);
  late.header.micro_batch = 1;
  EXPECT_THAT(refusal(server_of(second, 0), 0, std::move(late)),
              HasSubstr("push 1 of step 2 was pushed, but push 0 of step 2 is due"));
  do_step(second, 2);
  EXPECT_EQ(state_of(second), state_of(first));
}

/// Where workers do not wait for each other, what waits on a server is no part of its state.
TEST_F(RestoredServerTest, OfOtherRulesHasACourseBesides) {
  chunks_ = partition({50, 10}, 1, 128);
  ServerConfig own = config(both);
  own.rules = {Consistency::ssp, 1, 0};
  const auto make = [&] {
    Servers out;
    out.push_back(std::make_unique<ParameterServer>(model_, chunks_, *device_, own));
    return out;
  };
  const Servers first = make();
  do_step(first, 0);
  const State state = state_of(first);
  const nlohmann::json course = first[0]->course();
  EXPECT_EQ(course.at("chunks").size(), chunks_.size());
  for (std::size_t c = 0; c < chunks_.size(); ++c)
    EXPECT_EQ(course.at("chunks")[c].at("events"), "a0a1");
  EXPECT_FALSE(first[0]->is_after(1)) << "workers meet for that";
  EXPECT_EQ(refusal(*first[0], 0, push(0, 0, 1, Kind::push)), "");
  EXPECT_THAT(testing::complaint([&] { first[0]->course(); }),
              HasSubstr("1 gradients and 0 workers wait"));

  const Servers second = make();
  restore(second, state, 1);
  second[0]->restore_course(course);
  do_step(second, 1);
  EXPECT_THAT(refusal(*second[0], 0, push(0, 0, 0, Kind::push)),
              HasSubstr("step 0 has already been pushed"));
  const Servers third = make();
  do_step(third, 0);
  do_step(third, 1);
  EXPECT_EQ(state_of(second), state_of(third));
  EXPECT_EQ(second[0]->course(), third[0]->course());
}

}  // namespace
}  // namespace ringside::ps
