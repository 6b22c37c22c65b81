// The behaviour of every transport.
#include "ps/transport/shm/transport.h"
#include "ps/transport/sim/transport.h"
#include "ps/transport/zmq/transport.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <deque>

#include "core/base/error.h"
#include "ps/protocol/archive.h"
#include "tests/ps/frames.h"
#include "tests/ps/host.h"
#include "tests/ps/simulated.h"
#include "tests/support/complaint.h"
#include "tests/support/staged_device.h"

namespace ringside::ps {
namespace {

using testing::complaint;
using testing::counting;
using testing::same;

using testing::patience_s;

/// Staged: ZeroMQ on devices whose memory the host does not share.
enum class World { zmq, staged, shm, simulated };

std::unique_ptr<Transport> transport_of(World world) {
  if (world == World::shm) return shm_transport();
  return world == World::simulated ? sim_transport() : zmq_transport();
}

/// The objects of a test's code for one worker or one server.
struct Party {
  const RankContext& context;
  Channel& channel;
  std::uint64_t token;
  int id;
};
using Play = std::function<void(Party&)>;

/// The workers and servers of one run, each on a thread or an actor of its own. All channels stay
/// open until every thread is done.
class TransportRun {
 public:
  TransportRun(World world, int workers, int servers, bool colocated = false)
      : plan_(testing::tiny_plan(workers, servers, colocated, 1)),
        cluster_(testing::cpu_machines(2)),
        staged_(world == World::staged),
        transport_(transport_of(world)) {
    if (world == World::simulated) world_ = sim::make_world(cluster_);
    options_ = {.max_frame_bytes = 1 << 20, .timeout_s = patience_s};
    for (std::size_t r = 0; r < plan_.ranks.size(); ++r) ranks_.emplace_back(*this, r);
  }
  TransportOptions& options() { return options_; }

  void play(const Play& worker, const Play& server) {
    std::vector<std::jthread> threads;
    std::vector<std::string> errors(2 * plan_.ranks.size());
    for (std::size_t r = 0; r < plan_.ranks.size(); ++r)
      for (const bool serves : {false, true}) {
        const int id = serves ? plan_.ranks[r].server : plan_.ranks[r].worker;
        if (id < 0) continue;
        const auto body = [&, r, id, serves] {
          try {
            Rank& rank = ranks_[r];
            Connection& connection = serves ? rank.server : rank.worker;
            connection = serves ? transport_->listen(rank.context, options_)
                                : transport_->connect(rank.context, options_);
            Party party{rank.context, *connection.channel, connection.token, id};
            (serves ? server : worker)(party);
          } catch (const std::exception& error) {
            errors[2 * r + serves] = error.what();
          }
        };
        if (world_)
          world_->spawn("party", testing::place_of(cluster_, static_cast<int>(r)), body);
        else
          threads.emplace_back(body);
      }
    if (world_) world_->run();
    threads.clear();
    // Messages that were not taken would make closing ZeroMQ's channels slow.
    for (Rank& rank : ranks_)
      while (!world_ && rank.server.channel && rank.server.channel->receive(0.01)) {
      }
    for (const std::string& error : errors) EXPECT_EQ(error, "");
  }

 private:
  struct Rank {
    Rank(TransportRun& run, std::size_t r)
        : device(run.make_device(static_cast<int>(r))), context{run.plan_, static_cast<int>(r),
                                                                *device,   run.store_,
                                                                timeline,  &shared} {}
    std::unique_ptr<Device> device;
    Timeline timeline{*device};
    Shared shared;
    RankContext context;
    Connection worker, server;
  };

  std::unique_ptr<Device> make_device(int rank) {
    if (staged_) return std::make_unique<testing::StagedDevice>(3);
    auto device = make_cpu_device(1);
    if (!world_) return device;
    return sim::make_sim_device(cluster_, world_.get(), testing::place_of(cluster_, rank),
                                std::move(device));
  }

  RunPlan plan_;
  sim::ClusterSpec cluster_;
  bool staged_;
  std::unique_ptr<sim::World> world_;
  MemoryStore store_;
  std::unique_ptr<Transport> transport_;
  TransportOptions options_;
  std::deque<Rank> ranks_;
};

Message question(const Party& from, std::int64_t step = 0, std::vector<Tensor> frames = {}) {
  Message message;
  message.header = {.token = from.token, .kind = Kind::push_pull, .worker = from.id, .step = step};
  message.frames = std::move(frames);
  return message;
}

class TransportTest : public ::testing::TestWithParam<World> {
 protected:
  static World world() { return GetParam(); }
};
const char* text(World world) {
  switch (world) {
    case World::zmq:
      return "zmq";
    case World::staged:
      return "staged";
    case World::shm:
      return "shm";
    case World::simulated:
      return "simulated";
  }
  return "";
}
INSTANTIATE_TEST_SUITE_P(Transports, TransportTest,
                         ::testing::Values(World::zmq, World::staged, World::shm, World::simulated),
                         [](const auto& info) { return text(info.param); });

/// Frames of all sizes, small ones behind large ones.
std::vector<Tensor> frames_of(Device& device, int round) {
  const std::int64_t large = round % 3 == 0 ? 1 << 16 : 7;
  return {counting(device, {3 + round}, DType::u8, round),
          counting(device, {2, 5}, DType::i32, round), counting(device, {large}, DType::f32, round),
          counting(device, {0})};
}

TEST_P(TransportTest, MessagesArriveOnceInOrderAndWhole) {
  constexpr int rounds = 40, servers = 2, workers = 3;
  for (const bool colocated : {false, true}) {
    TransportRun run(world(), workers, servers, colocated);
    run.play(
        [&](Party& self) {
          for (int s = 0; s < servers; ++s)
            for (int i = 0; i < rounds; ++i)
              self.channel.send(s, question(self, i, frames_of(self.context.device, i + s)));
          std::vector<int> answers(servers);
          for (int i = 0; i < rounds * servers; ++i) {
            const auto answer = self.channel.receive(patience_s);
            ASSERT_TRUE(answer);
            EXPECT_TRUE(answer->message.header.reply);
            EXPECT_EQ(answer->message.header.worker, self.id);
            EXPECT_EQ(answer->message.header.step, answers[answer->peer]++);
          }
          EXPECT_FALSE(self.channel.receive(0));
        },
        [&](Party& self) {
          std::vector<int> questions(workers);
          for (int i = 0; i < rounds * workers; ++i) {
            const auto asked = self.channel.receive(patience_s);
            ASSERT_TRUE(asked);
            int& expected = questions.at(asked->peer);
            EXPECT_EQ(asked->message.header.token, self.token);
            EXPECT_EQ(asked->message.header.worker, asked->peer);
            EXPECT_EQ(asked->message.header.step, expected);
            const auto frames = frames_of(self.context.device, expected + self.id);
            ASSERT_EQ(asked->message.frames.size(), frames.size());
            for (std::size_t f = 0; f < frames.size(); ++f)
              EXPECT_TRUE(same(self.context.device, asked->message.frames[f], self.context.device,
                               frames[f]))
                  << expected << ", " << f;
            self.channel.send(asked->peer, {reply_to(asked->message.header), {}});
            ++expected;
          }
          EXPECT_FALSE(self.channel.receive(0.001));
        });
  }
}

TEST_P(TransportTest, ATimeoutTakesItsTimeAndZeroTakesNone) {
  TransportRun run(world(), 1, 1);
  run.play(
      [](Party& self) {
        const Clock& clock = self.context.device.clock();
        const double begin = clock.now();
        EXPECT_FALSE(self.channel.receive(0.05));
        EXPECT_GE(clock.now() - begin, 0.049);
        double fastest = 1;  // of some tries, as others may take the processor away
        for (int attempt = 0; attempt < 20 && fastest >= 0.05; ++attempt) {
          const double before = clock.now();
          for (int i = 0; i < 100; ++i) EXPECT_FALSE(self.channel.receive(0));
          fastest = std::min(fastest, clock.now() - before);
        }
        EXPECT_LT(fastest, 0.05);
      },
      [](Party&) {});
}

TEST_P(TransportTest, CountsHeadersAndFramesThatLeaveTheRank) {
  for (const bool colocated : {false, true}) {
    TransportRun run(world(), 1, 1, colocated);
    std::atomic<std::int64_t> bytes = 0;
    run.play(
        [&](Party& self) {
          const Message message = question(self, 3, {counting(self.context.device, {1000})});
          bytes = colocated ? 0 : static_cast<std::int64_t>(encode(message).size()) + 4000;
          self.channel.send(0, message);
          EXPECT_EQ(self.channel.traffic().sent, bytes);
          ASSERT_TRUE(self.channel.receive(patience_s));
          EXPECT_EQ(self.channel.traffic().sent, bytes);
        },
        [&](Party& self) {
          ASSERT_TRUE(self.channel.receive(patience_s));
          EXPECT_EQ(self.channel.traffic().received, bytes);
          EXPECT_EQ(self.channel.traffic().sent, 0);
          self.channel.send(0, question(self));
        });
  }
}

TEST_P(TransportTest, ReceivedFramesAreInTheLedgerUntilTheyAreGone) {
  for (const bool colocated : {false, true}) {
    TransportRun run(world(), 1, 1, colocated);
    run.play(
        [&](Party& self) {
          const Tensor frame = counting(self.context.device, {1 << 16});
          self.channel.send(0, question(self, 0, {frame}));
          ASSERT_TRUE(self.channel.receive(patience_s));
        },
        [&](Party& self) {
          auto received = self.channel.receive(patience_s);
          ASSERT_TRUE(received);
          const auto counted = [&] {
            return self.context.device.ledger().current()[MemoryKind::communication];
          };
          const bool views = colocated || world() == World::shm;
          EXPECT_EQ(counted(), views ? 0 : 4 << 16)
              << "a frame that is a view of the sender's memory is counted there alone";
          received.reset();
          EXPECT_EQ(counted(), 0);
          self.channel.send(0, question(self));
        });
  }
}

TEST_P(TransportTest, AServerCannotSendToWhoNeverCame) {
  TransportRun run(world(), 1, 1);
  run.play([](Party&) {},
           [](Party& self) {
             EXPECT_EQ(complaint([&] { self.channel.send(0, question(self)); }),
                       "server 0: worker 0 never connected");
             EXPECT_FALSE(self.channel.try_send(0, question(self)));
           });
}

TEST_P(TransportTest, WhoSendsTooMuchIsBlockedUntilTheDeadline) {
  TransportRun run(world(), 1, 1);
  run.options().timeout_s = 0.5;
  run.play(
      [&](Party& self) {
        Timeline& timeline = self.context.timeline;
        const Tensor frame = counting(self.context.device, {1 << 16});
        timeline.begin_step();
        int sent = 0;
        EXPECT_EQ(complaint([&] {
                    for (; sent < 1000; ++sent) self.channel.send(0, question(self, 0, {frame}));
                  }),
                  "server 0 did not accept a push_pull message within 0.5 s; raise "
                  "train.timeout_s if the server is really busy for that long");
        timeline.end_step();
        EXPECT_GE(sent, high_water_mark);
        EXPECT_FALSE(self.channel.try_send(0, question(self)));
        EXPECT_GE(timeline.step_times()[0].by_activity[static_cast<std::size_t>(Activity::exposed)],
                  0.49);
        EXPECT_EQ(timeline.slices(0).back().name, "send push_pull to server 0");
      },
      [](Party&) {});
}

/// Worker and server would block each other for ever, since each sends more than the queue holds.
/// They get through because the worker takes messages from the server while its send is blocked.
TEST_P(TransportTest, AWorkerReadsWhileItsSendIsBlocked) {
  constexpr int messages = 600;
  TransportRun run(world(), 1, 1);
  run.play(
      [&](Party& self) {
        const Tensor frame = counting(self.context.device, {1 << 14});
        for (int i = 0; i < messages; ++i) self.channel.send(0, question(self, i, {frame}));
        for (int i = 0; i < messages; ++i) {
          const auto answer = self.channel.receive(patience_s);
          ASSERT_TRUE(answer);
          EXPECT_EQ(answer->message.header.step, i);
        }
        self.channel.send(0, question(self, messages));
      },
      [&](Party& self) {
        for (int i = 0; i < messages; ++i) {
          auto asked = self.channel.receive(patience_s);
          ASSERT_TRUE(asked);
          asked->message.header.reply = true;
          self.channel.send(0, std::move(asked->message));
        }
        EXPECT_TRUE(self.channel.receive(patience_s))
            << "replies may wait until the worker calls receive()";
      });
}

TEST_P(TransportTest, AWorkerThatIsBlockedHearsWhy) {
  TransportRun run(world(), 1, 1);
  run.play(
      [&](Party& self) {
        const Tensor frame = counting(self.context.device, {1 << 16});
        EXPECT_EQ(complaint([&] {
                    for (int i = 0; i < 1000; ++i) self.channel.send(0, question(self, i, {frame}));
                  }),
                  "server 0: enough");
      },
      [&](Party& self) {
        ASSERT_TRUE(self.channel.receive(patience_s));
        Message answer;
        answer.header = {.kind = Kind::error, .reply = true, .text = "enough"};
        EXPECT_TRUE(self.channel.try_send(0, std::move(answer)));
      });
}

}  // namespace
}  // namespace ringside::ps
