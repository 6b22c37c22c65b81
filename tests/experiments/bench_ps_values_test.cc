// The wrong values that `ringside bench ps` counts if servers err.
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <algorithm>
#include <functional>
#include <map>
#include <thread>

#include "core/launch/rank_link.h"
#include "experiments/tools/bench/connected_ranks.h"
#include "experiments/tools/bench/ps_rank.h"
#include "experiments/tools/bench/ps_values.h"
#include "experiments/tools/bench/rank_group.h"
#include "ps/transport/zmq/transport.h"

namespace ringside::tools::bench {
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
  MemoryStore store;
  std::vector<std::thread> threads;
  std::vector<std::unique_ptr<JsonLine>> lines;
  PsRoles roles{.workers = workers, .servers = servers, .timeout_s = 30};
  for (roles.rank = 0; roles.rank < workers + servers; ++roles.rank) {
    int ends[2];
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    lines.push_back(std::make_unique<JsonLine>(ends[0]));
    threads.emplace_back([&, roles, socket = ends[1]] {
      const auto make = [&]() -> std::unique_ptr<ps::Transport> {
        if (roles.server() != 0) return ps::zmq_transport();
        return std::make_unique<ErringTransport>(change, 3);
      };
      std::optional<SpinBarrier> barrier;
      if (roles.works()) barrier.emplace(store, roles.rank, workers, roles.timeout_s);
      PsRank rank(roles, Links(nullptr, std::function(make)), store, std::move(barrier));
      RankLink link(std::make_unique<JsonLine>(socket));
      serve({[&](double timeout_s) { return link.hear(timeout_s); },
             [&](const nlohmann::json& value) { link.send(value); }},
            roles.rank, rank);
    });
  }
  std::int64_t wrong = 0;
  try {
    RankGroup group("bench ps", std::make_unique<ConnectedRanks>(std::move(lines)),
                    workers + servers, {.timeout_s = 40});
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

/// The values of a range after updates, from element `first` of the array on.
class Range {
 public:
  /// Elements [begin, end) are of an update with these workers' gradients of a round.
  void update(std::size_t begin, std::size_t end, std::int64_t of,
              const std::vector<int>& workers) {
    std::fill(values_.begin() + static_cast<std::ptrdiff_t>(begin),
              values_.begin() + static_cast<std::ptrdiff_t>(end), 0.0F);
    std::vector<float> gradient(first + values_.size());
    for (const int worker : workers) {
      fill_gradient(gradient, worker, of);
      for (std::size_t i = begin; i < end; ++i) values_[i] -= gradient[first + i];
    }
  }
  std::int64_t wrong(ps::Consistency consistency) const {
    return count_wrong_values(values_, first, round, 3, consistency);
  }

  static constexpr std::int64_t first = 1000, round = 5;

 private:
  std::vector<float> values_ = std::vector<float>(100);
};

TEST(BenchPsValues, AreWhatTheConsistencyAllows) {
  using enum ps::Consistency;
  Range range;
  for (const auto consistency : {bsp, ssp, asp})
    EXPECT_EQ(range.wrong(consistency), 100) << "nothing was pushed";
  range.update(0, 100, Range::round, {0, 1, 2});
  EXPECT_EQ(range.wrong(bsp), 0);
  EXPECT_EQ(range.wrong(ssp), 0);
  EXPECT_EQ(range.wrong(asp), 100);
  range.update(0, 100, Range::round - 1, {0, 1, 2});
  EXPECT_EQ(range.wrong(bsp), 100);
  EXPECT_EQ(range.wrong(ssp), 0) << "a worker may be one update behind";
  range.update(0, 40, Range::round, {0, 1, 2});
  EXPECT_EQ(range.wrong(bsp), 60);
  EXPECT_EQ(range.wrong(ssp), 40) << "torn";
  range.update(0, 100, Range::round - 2, {0, 1, 2});
  EXPECT_EQ(range.wrong(ssp), 100);
  for (const int worker : {0, 1, 2}) {
    range.update(0, 100, Range::round, {worker});
    EXPECT_EQ(range.wrong(asp), 0);
    EXPECT_EQ(range.wrong(bsp), 100);
  }
  range.update(50, 80, Range::round, {0});
  EXPECT_EQ(range.wrong(asp), 30) << "torn";
  range.update(0, 100, Range::round - 1, {0});
  EXPECT_EQ(range.wrong(asp), 100);
  range.update(0, 100, Range::round, {0, 1, 2, 0});
  EXPECT_EQ(range.wrong(bsp), 100) << "a push was applied twice";
}

}  // namespace
}  // namespace ringside::tools::bench
