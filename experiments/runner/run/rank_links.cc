#include "experiments/runner/run/rank_links.h"

#include <array>
#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "core/base/processor.h"
#include "core/observe/run_record.h"
#include "experiments/runner/run/timed_messages.h"

namespace ringside::runner {
namespace {

constexpr int tries = 3;

/// Keeps all cores of this process busy, and measures the core time that others take meanwhile: the
/// threads of a library, and the system, whose work for the network is not charged to any process.
class BusyCores {
 public:
  explicit BusyCores(const Clock& clock) : clock_(clock) {
    for (int core = 0; core < allowed_cores().value_or(1); ++core)
      counters_.push_back(std::make_unique<Counter>());
    for (auto& counter : counters_)
      threads_.emplace_back([&counter = *counter](const std::stop_token& stop) {
        while (!stop.stop_requested()) {
          for (int i = 0; i < 1000; ++i) counter.sink = counter.sink * 3 + 1;
          counter.turns.fetch_add(1, std::memory_order_relaxed);
        }
      });
    // Disturbances lower the count of rounds, so the largest of several rates counts.
    for (int i = 0; i < 5; ++i) {
      const auto [turns, seconds] =
          turns_during([] { std::this_thread::sleep_for(std::chrono::milliseconds(100)); });
      turns_per_s_ = std::max(turns_per_s_, turns / seconds);
    }
  }

  /// Core seconds that the threads lack while `work` runs: the median of some tries.
  double taken_by(const std::function<void()>& work) {
    std::vector<double> taken;
    for (int i = 0; i < tries; ++i) {
      const auto [turns, seconds] = turns_during(work);
      taken.push_back(static_cast<double>(counters_.size()) * (seconds - turns / turns_per_s_));
    }
    return std::max(0.0, quantiles(std::move(taken)).median);
  }

 private:
  struct alignas(64) Counter {
    std::atomic<std::int64_t> turns{0};
    volatile unsigned sink = 1;
  };

  /// The mean rounds of a core, and the seconds.
  std::pair<double, double> turns_during(const std::function<void()>& work) {
    const double begin = clock_.now(), before = turns();
    work();
    return {(turns() - before) / static_cast<double>(counters_.size()), clock_.now() - begin};
  }
  double turns() const {
    double out = 0;
    for (const auto& counter : counters_) out += static_cast<double>(counter->turns.load());
    return out;
  }

  const Clock& clock_;
  std::vector<std::unique_ptr<Counter>> counters_;
  std::vector<std::jthread> threads_;
  double turns_per_s_ = 0;
};

/// Arrays of collectives, used one after the other, so that they lie in no cache, like the arrays
/// that training moves.
class Arrays {
 public:
  Arrays(Device& device, Communicator& comm) : comm_(comm) {
    constexpr std::int64_t whole = 1 << 22;  // elements
    part_ = whole / comm.size();
    for (auto& [all, own] : arrays_) {
      all = device.tensor({part_ * comm.size()}, MemoryKind::communication);
      own = device.tensor({part_}, MemoryKind::communication);
      for (const Tensor& tensor : {all, own}) device.kernels().fill({.out = tensor, .value = 1});
    }
  }
  WorkPtr sum() { return comm_.all_reduce(next().all); }
  WorkPtr sum_few() { return comm_.all_reduce(next().all.range(0, 1 << 10)); }
  WorkPtr gather() {
    const Pair& pair = next();
    return comm_.all_gather(pair.own, pair.all);
  }
  /// Bytes that leave a host in gather(); in sum() twice as many do.
  double sent() const { return 4.0 * static_cast<double>(part_ * (comm_.size() - 1)); }

 private:
  struct Pair {
    Tensor all, own;
  };
  const Pair& next() { return arrays_[turn_++ % arrays_.size()]; }

  Communicator& comm_;
  std::int64_t part_ = 0;
  std::array<Pair, 4> arrays_;
  std::size_t turn_ = 0;
};

/// Makes a collective `repeats` times, each after all ranks have arrived; returns the median of its
/// times.
double seconds_of(const RankContext& context, Communicator& comm, int repeats,
                  const std::function<WorkPtr()>& begin) {
  std::vector<double> wall;
  for (int i = 0; i < repeats; ++i) {
    comm.barrier();
    const double at = context.device.clock().now();
    begin()->wait();
    wall.push_back(context.device.clock().now() - at);
  }
  return quantiles(std::move(wall)).median;
}

void time_collectives(const RankContext& context, Communicator& comm, LinkTimes& out) {
  constexpr int repeats = 21;
  Arrays arrays(context.device, comm);
  const auto gather = [&] { return arrays.gather(); };
  const auto sum = [&] { return arrays.sum(); };
  seconds_of(context, comm, 3, sum);  // a connection is slow at first
  const int steps = comm.size() == 2 ? 1 : 2;
  out.step_us = 1e6 * seconds_of(context, comm, 200, [&] { return arrays.sum_few(); }) / steps;
  const double seconds =
      seconds_of(context, comm, repeats, gather) + seconds_of(context, comm, repeats, sum);
  out.gbs = 1e-9 * 3 * arrays.sent() / (seconds - 3e-6 * out.step_us);  // 1 step and 2
  comm.barrier();
  BusyCores cores(context.device.clock());
  comm.barrier();
  const double taken = cores.taken_by([&] {
    for (int i = 0; i < repeats; ++i) gather()->wait();
  });
  out.collective_us_per_mb = 1e12 * taken / (repeats * 2 * arrays.sent());
  comm.barrier();
}

// Sizes of messages whose latency and core time are measured.
constexpr std::int64_t small_message = 16, large_message = 1 << 18;  // elements
constexpr EchoSeries single_messages{200, small_message}, small_messages{1000, small_message, 0},
    large_messages{100, large_message, 0};

/// `ends`: the number of ends of each message that lie on this host.
void time_messages(const RankContext& context, int ends, LinkTimes& out) {
  Echo echo(context);
  out.message_wall_us = 1e6 * echo.ask(single_messages).wall_s;
  BusyCores cores(context.device.clock());
  const auto taken_us = [&](const EchoSeries& series) {
    const double taken = cores.taken_by([&] { echo.ask(series); });
    return 1e6 * taken / (2 * series.messages * ends);  // one goes, and one comes
  };
  out.message_us = taken_us(small_messages);
  out.message_us_per_mb =
      std::max(0.0, taken_us(large_messages) - out.message_us) / (4e-6 * large_message);
}

}  // namespace

RankRecord time_links(const RankContext& context) {
  RankRecord record;
  record.rank = context.rank;
  record.role = context.self().role();
  const int last = context.plan.world - 1;
  if (context.self().server >= 0) {
    Echo echo(context);
    for (int asking = 0; asking < 2; ++asking) {
      echo.answer(single_messages);
      for (const EchoSeries& series : {small_messages, large_messages})
        for (int i = 0; i < tries; ++i) echo.answer(series);
    }
    return record;
  }
  const int worker = context.self().worker;
  const auto comm = context.communicator(all_workers(context, "links"));
  LinkTimes times;
  time_collectives(context, *comm, times);
  if (worker == last) time_messages(context, 1, times);
  comm->barrier();
  if (worker == 0) time_messages(context, 2, times);
  comm->barrier();
  if (worker == 0 || worker == last) record.links = times;
  return record;
}

}  // namespace ringside::runner
