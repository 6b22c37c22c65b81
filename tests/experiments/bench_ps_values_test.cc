// What `ringside bench ps` counts if servers err.
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <algorithm>
#include <functional>
#include <map>
#include <thread>

#include "experiments/benchmark/ps_rank.h"
#include "experiments/benchmark/ps_values.h"
#include "experiments/benchmark/rank_group.h"
#include "ps/wires/zmq/transport.h"

namespace ringside {
namespace {

/// Changes a message that a server sends. `before` is what the server sent to this worker about the
/// same range before, if it has.
using Change = std::function<void(std::span<float> values, std::span<const float> before)>;

/// A channel of a server whose `number`th reply to worker 0 is changed.
class ErringChannel : public ps::Channel {
 public:
  ErringChannel(std::unique_ptr<ps::Channel> channel, Device& device, Change change, int number)
      : channel_(std::move(channel)), device_(device), change_(std::move(change)), left_(number) {}

  void send(int worker, ps::Message message) override {
    if (worker == 0 && !message.frames.empty()) {
      const Tensor sent = message.frames[0];
      Tensor changed = device_.tensor(sent.shape(), MemoryKind::communication);
      const auto count = static_cast<std::size_t>(sent.count());
      std::copy_n(sent.data<float>(), count, changed.data<float>());
      std::vector<float>& before = before_[message.header.begin];
      const std::vector<float> now(sent.data<float>(), sent.data<float>() + count);
      if (--left_ == 0) change_({changed.data<float>(), count}, before);
      before = now;
      message.frames[0] = changed;
    }
    channel_->send(worker, std::move(message));
  }
  bool try_send(int worker, ps::Message message) override {
    return channel_->try_send(worker, std::move(message));
  }
  std::optional<ps::Received> receive(double timeout_s) override {
    return channel_->receive(timeout_s);
  }
  Traffic traffic() const override { return channel_->traffic(); }

 private:
  std::unique_ptr<ps::Channel> channel_;
  Device& device_;
  Change change_;
  int left_;
  std::map<std::int64_t, std::vector<float>> before_;  // by first element
};

class ErringTransport : public ps::Transport {
 public:
  ErringTransport(Change change, int number) : change_(std::move(change)), number_(number) {}
  ps::Connection listen(const RankContext& context, const ps::TransportOptions& options) override {
    ps::Connection made = transport_->listen(context, options);
    return {
        std::make_unique<ErringChannel>(std::move(made.channel), context.device, change_, number_),
        made.token};
  }
  ps::Connection connect(const RankContext& context, const ps::TransportOptions& options) override {
    return transport_->connect(context, options);
  }

 private:
  std::unique_ptr<ps::Transport> transport_ = ps::zmq_transport();
  Change change_;
  int number_;
};

/// The wrong elements that the ranks of the bench, as threads, count in six calls for `count`
/// elements, if the third reply of a server to worker 0 is changed.
std::int64_t wrong_with(const Change& change, int workers, int servers, std::int64_t count) {
  const auto shared = make_shared_ranks();
  MemoryStore store;
  std::vector<std::thread> threads;
  std::vector<int> sockets;
  PsRoles roles{.workers = workers, .servers = servers, .timeout_s = 30};
  for (roles.rank = 0; roles.rank < workers + servers; ++roles.rank) {
    int ends[2];
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    sockets.push_back(ends[0]);
    threads.emplace_back([&, roles, socket = ends[1]] {
      const auto make = [&]() -> std::unique_ptr<ps::Transport> {
        if (roles.server() != 0) return ps::zmq_transport();
        return std::make_unique<ErringTransport>(change, 3);
      };
      PsRank rank(roles, Links(nullptr, std::function(make)), store,
                  Meeting(*shared, workers, roles.timeout_s));
      serve(socket, roles.rank, rank);
    });
  }
  class Threads : public RankProcesses {
    std::string cause_of_end(int) override { return "it returned"; }
  };
  std::int64_t wrong = 0;
  try {
    RankGroup group("bench ps", sockets, std::make_unique<Threads>(), {.timeout_s = 40});
    group.prepare("ipc/bsp", count);
    EXPECT_EQ(group.turn("ipc/bsp", 6, RankGroup::From::first_begin).size(), 6u);
    wrong = group.count_wrong();
    EXPECT_EQ(group.count_wrong(), 0) << "each is counted once";
  } catch (const std::exception& error) {
    ADD_FAILURE() << error.what();
  }
  for (std::thread& thread : threads) thread.join();
  return wrong;
}

TEST(BenchPsValues, AreCountedIfAServerErrs) {
  const auto nothing = [](std::span<float>, std::span<const float>) {};
  const auto one = [](std::span<float> values, std::span<const float>) { values[7] += 1; };
  const auto late = [](std::span<float> values, std::span<const float> before) {
    std::copy(before.begin(), before.end(), values.begin());
  };
  const auto torn = [](std::span<float> values, std::span<const float> before) {
    std::copy_n(before.begin(), values.size() / 4, values.begin());
  };
  for (const int servers : {1, 2}) {
    EXPECT_EQ(wrong_with(nothing, 2, servers, 4000), 0);
    EXPECT_EQ(wrong_with(one, 2, servers, 4000), 1);
    EXPECT_EQ(wrong_with(late, 2, servers, 4000), 4000 / servers);
    EXPECT_EQ(wrong_with(torn, 2, servers, 4000), 1000 / servers);
  }
  EXPECT_EQ(wrong_with(one, 1, 1, 1 << 19), 1) << "an array of several ranges";
}

TEST(BenchPsValues, OfSomeWorkersAreRightIfTheyAreTheSameThroughoutARange) {
  constexpr std::int64_t round = 5, first = 1000;
  constexpr int workers = 3;
  std::vector<float> sum(100);
  const auto add = [&](std::size_t begin, std::size_t end, int worker, std::int64_t of) {
    std::vector<float> gradient(first + sum.size());
    fill_gradient(gradient, worker, of);
    for (std::size_t i = begin; i < end; ++i) sum[i] -= gradient[first + i];
  };
  const auto wrong = [&](bool all) { return count_wrong_values(sum, first, round, workers, all); };
  add(0, 100, 1, round);
  EXPECT_EQ(wrong(false), 0);
  EXPECT_EQ(wrong(true), 100) << "two are missing";
  add(0, 40, 2, round);
  EXPECT_EQ(wrong(false), 60) << "worker 2 is only in the first 40";
  add(40, 100, 2, round);
  EXPECT_EQ(wrong(false), 0);
  add(0, 100, 0, round - 1);
  EXPECT_EQ(wrong(false), 100) << "a gradient of the round before";
  std::fill(sum.begin(), sum.end(), 0.0F);
  EXPECT_EQ(wrong(false), 100) << "no gradient at all";
  for (int worker = 0; worker < workers; ++worker) add(0, 100, worker, round);
  EXPECT_EQ(wrong(false), 0);
  EXPECT_EQ(wrong(true), 0);
  add(50, 51, 0, round);
  EXPECT_EQ(wrong(true), 1) << "a push that was applied twice";
}

}  // namespace
}  // namespace ringside
