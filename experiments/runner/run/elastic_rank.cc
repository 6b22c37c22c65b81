#include "experiments/runner/run/elastic_rank.h"

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <thread>
#include <utility>

#include "core/base/error.h"
#include "core/base/error_text.h"
#include "core/base/interruption.h"
#include "core/base/json_fields.h"
#include "core/launch/elastic_run.h"
#include "core/launch/rank_link.h"
#include "experiments/runner/registry/plugins.h"
#include "experiments/runner/registry/registry.h"
#include "experiments/runner/run/rank.h"

namespace ringside::runner {
namespace {

/// A peer's end makes this rank fail, perhaps before the launcher has said that the world changes:
/// an error counts only if nothing is said for so long.
constexpr std::chrono::milliseconds patience(1000);

/// A rank that the process is to be.
struct Assignment {
  int rank = 0;
  RunPlan plan;
};

/// Hears what the launcher says, in a thread of its own: a rank that waits for its peers hears
/// nothing itself.
class Orders {
 public:
  explicit Orders(RankLink& link) : link_(link), hearing_([this] { hear(); }) {}
  ~Orders() {
    stop_ = true;
    hearing_.join();
  }
  Orders(const Orders&) = delete;
  Orders& operator=(const Orders&) = delete;

  /// Begins a rank's part in a generation, which the interruption ends.
  void begin(std::int64_t generation, Interruption& interruption) {
    const std::lock_guard lock(mutex_);
    generation_ = generation;
    interruption_ = &interruption;
    if (interrupted_ >= generation) interruption.raise();
  }
  void end() {
    const std::lock_guard lock(mutex_);
    interruption_ = nullptr;
  }

  /// Waits until the present generation is interrupted; returns false if it is not in time.
  bool interrupted_within(std::chrono::milliseconds time) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, time, [this] { return interrupted_ >= generation_ || over_; });
  }

  /// The next rank that the process is to be; none if it is dismissed. Calls `when_interrupted`
  /// once if the present generation is interrupted meanwhile.
  std::optional<Assignment> next(const std::function<void()>& when_interrupted) {
    std::unique_lock lock(mutex_);
    bool said = false;
    for (;;) {
      changed_.wait(lock, [&] { return over_ || next_ || (!said && interrupted_ >= generation_); });
      if (next_) return std::exchange(next_, {});
      if (over_) return {};
      said = true;
      when_interrupted();
    }
  }

 private:
  void hear() {
    while (!stop_) {
      constexpr double look_again_s = 0.1;
      const std::optional<nlohmann::json> said = link_.hear(look_again_s);
      if (said && said->is_null()) continue;
      const std::lock_guard lock(mutex_);
      if (!said || said->contains(elastic::dismissed)) {
        over_ = true;
        if (!said && interruption_) interruption_->raise();
      } else if (const auto generation = said->find(elastic::interrupted);
                 generation != said->end()) {
        interrupted_ = std::max(interrupted_, generation->get<std::int64_t>());
        if (interruption_ && interrupted_ >= generation_) interruption_->raise();
      } else if (said->contains("plan")) {
        next_ = {said->at("rank").get<int>(), read_plan(said->at("plan"))};
      }
      changed_.notify_all();
      if (over_) return;
    }
  }

  RankLink& link_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::int64_t generation_ = -1, interrupted_ = -1;
  Interruption* interruption_ = nullptr;
  std::optional<Assignment> next_;
  bool over_ = false;
  std::atomic<bool> stop_ = false;
  std::thread hearing_;
};

/// The store as the ranks of one generation share it. What the launcher tells all ranks, and what
/// is for the user, has no generation.
class StoreOfGeneration : public Store {
 public:
  StoreOfGeneration(Store& store, std::int64_t generation, const Interruption& interruption)
      : store_(store), generation_(generation), interruption_(interruption) {}

  void set(const std::string& key, const std::string& value) override {
    store_.set(elastic::key_in(generation_, key), value);
  }
  std::string get(const std::string& key, double timeout_s) override {
    using Clock = std::chrono::steady_clock;
    const auto end = Clock::now() + std::chrono::duration<double>(timeout_s);
    auto nap = std::chrono::microseconds(50);
    for (; Clock::now() < end; std::this_thread::sleep_for(nap)) {
      interruption_.check();
      if (auto value = try_get(key)) return *value;
      nap = std::min(2 * nap, std::chrono::microseconds(5000));
    }
    throw Error("store: key '{}' was not set within {} s", key, timeout_s);
  }
  std::optional<std::string> try_get(const std::string& key) override {
    return store_.try_get(elastic::key_in(generation_, key));
  }

 private:
  Store& store_;
  std::int64_t generation_;
  const Interruption& interruption_;
};

/// Text in many files takes a second to read: a process does so once, before it has a place and
/// others wait for it.
Datasets read_data(const RunPlan& plan) {
  const auto device = find_device(plan.device.kind).make(plan, 0, nullptr);
  return find_dataset(plan.data.kind)
      .make(plan.data, plan.model, make_model(plan.model, *device).task);
}

}  // namespace

bool run_elastic_rank(LauncherLink& link, const std::string& program) {
  Orders orders(link.link());
  const auto say_left = [&](std::int64_t generation) {
    link.link().send({{elastic::left, generation}});
  };
  const Datasets data = read_data(link.plan());
  std::optional<Assignment> now;
  std::int64_t generation = link.plan().generation;
  if (generation >= 0) {
    now = {link.rank(), link.plan()};
  } else {
    link.link().send({{elastic::ready, true}});
    now = orders.next([] {});
  }
  while (now) {
    const RunPlan plan = std::move(now->plan);
    generation = plan.generation;
    Interruption interruption;
    orders.begin(generation, interruption);
    bool has_left = false;
    try {
      StoreOfGeneration store(link.store(), generation, interruption);
      const RankRecord record =
          run_rank(plan, now->rank, {store, nullptr, program, true, &interruption, &data},
                   {[&](const Progress& progress) { link.report_progress(to_json(progress)); },
                    [&](const std::string& error) {
                      if (!orders.interrupted_within(patience)) link.fail(error);
                    },
                    [&](const Beat& beat) {
                      link.link().send({{"beat", to_json(beat)}});
                    }});
      has_left = record.left;
      if (!has_left) link.finish(to_json(record));
    } catch (const std::exception& error) {
      if (!orders.interrupted_within(patience)) {
        orders.end();
        link.fail(error_text(error));
        return false;
      }
      has_left = true;
    }
    orders.end();
    if (has_left) say_left(generation);
    now = orders.next([&] {
      if (!has_left) say_left(generation);
    });
  }
  return true;
}

}  // namespace ringside::runner
