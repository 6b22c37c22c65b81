#include "core/launch/launch.h"

#include <algorithm>
#include <chrono>
#include <csignal>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "core/base/error.h"
#include "core/base/json_fields.h"
#include "core/base/seconds_now.h"
#include "core/launch/elastic_run.h"
#include "core/launch/fault_striker.h"
#include "core/launch/rank_watch.h"
#include "core/launch/seats.h"
#include "core/launch/store_server.h"
#include "core/plan/worlds.h"

namespace ringside {
namespace {

using SteadyTime = std::chrono::steady_clock::time_point;

constexpr int poll_ms = 100;
/// A busy machine wakes this process late too, though by less.
constexpr double least_standstill_s = 0.5;
constexpr std::chrono::seconds grace(2);        // from SIGTERM to SIGKILL
constexpr std::chrono::seconds longest_end(3);  // after SIGKILL, of ranks on other hosts
/// What is said on one host reaches the launcher earlier than what is said on another: of several
/// hosts the launcher awaits for so long whether a rank was killed, which then is the cause.
constexpr std::chrono::milliseconds difference_of_ways(300);

/// One run: all its ranks, their store, and the first failure.
class Launch : private RankEvents {
 public:
  Launch(const RunPlan& plan, const std::vector<RankHost*>& hosts, const LaunchListener& listener,
         RunSidecar* sidecar)
      : plan_(plan), hosts_(hosts), listener_(listener), sidecar_(sidecar) {
    result_.records.resize(plan.ranks.size());
    running_.resize(in_one_process(plan) ? 1 : plan.ranks.size());
    for (RankHost* host : hosts_)
      if (std::find(distinct_.begin(), distinct_.end(), host) == distinct_.end())
        distinct_.push_back(host);
    try {
      for (std::size_t r = 0; r < running_.size(); ++r) {
        hosts_.at(r)->start(plan, static_cast<int>(r));
        running_[r] = true;
      }
    } catch (...) {
      end_all();
      throw;
    }
    if (is_elastic(plan)) elastic_.emplace(plan, processes());
    striker_.change_world_by([this](const Fault& fault) {
      if (fault.kind == Fault::Kind::remove)
        remove(fault.number, "leaves");
      else if (elastic_)
        elastic_->add(seconds_now());
      else
        seats_.add(seconds_now());
    });
  }
  ~Launch() { end_all(); }  // if something was thrown
  Launch(const Launch&) = delete;
  Launch& operator=(const Launch&) = delete;

  LaunchResult run(const std::function<bool()>& interrupted) {
    while (any_running()) {
      const auto now = std::chrono::steady_clock::now();
      if (interrupted() && !result_.interrupted) interrupt(now);
      if (ending_ && !forced_ && now > *ending_ + grace) {
        forced_ = true;
        signal_all(SIGKILL);
      }
      if (ending_ && now > *ending_ + grace + longest_end) drop_all();
      listen();
      striker_.attend(seconds_now());
      if (elastic_ && !ending_) elastic_->attend(seconds_now());
      if (elastic_ && !elastic_->failure().empty()) fail(elastic_->failure());
    }
    if (elastic_) {
      result_.at_end = elastic_->plan();
      result_.worlds = elastic_->periods();
      result_.records.resize(elastic_->plan().ranks.size());
    }
    if (!elastic_) result_.worlds = seats_.worlds();
    result_.lost = seats_.away();
    result_.slow = watch_.slow();
    result_.faults = striker_.faults();
    if (!complaints_.empty()) fail(complaints_.begin()->second);
    result_.stopped = asked_ && result_.error.empty();
    for (const auto& [key, value] : store_.values())
      if (key.starts_with(kept_key)) result_.kept.emplace(key.substr(kept_key.size()), value);
    return std::move(result_);
  }

 private:
  /// Asks the ranks to end, at their next step if they can go on from it later.
  void interrupt(SteadyTime now) {
    if (!plan_.checkpoint.path.empty() && !asked_) {
      asked_ = now;
      store_.set(stop_key, "");
    }
    if (asked_ && std::chrono::duration<double>(now - *asked_).count() < plan_.train.timeout_s)
      return;
    result_.interrupted = true;
    fail("interrupted");
  }

  bool any_running() const {
    return std::find(running_.begin(), running_.end(), true) != running_.end();
  }
  void signal_all(int number) {
    for (std::size_t r = 0; r < running_.size(); ++r)
      if (running_[r]) hosts_[r]->signal(static_cast<int>(r), number);
  }

  void drop_all() {
    for (std::size_t r = 0; r < running_.size(); ++r)
      if (running_[r]) hosts_[r]->drop();
  }
  void end_all() {
    signal_all(SIGKILL);
    for (const auto end = std::chrono::steady_clock::now() + longest_end; any_running();) {
      if (std::chrono::steady_clock::now() > end) drop_all();
      try {
        listen();
      } catch (const std::exception&) {
        // What a rank said that made no sense has been thrown already.
      }
    }
  }

  void listen() {
    const double asleep_since = seconds_now();
    wait_for_news(distinct_, sidecar_ ? sidecar_->files() : std::vector<int>(), poll_ms);
    if (const double late = seconds_now() - asleep_since - 1e-3 * poll_ms;
        late > least_standstill_s)
      result_.stood_still_s += late;
    for (RankHost* host : distinct_) host->read(*this);
    if (sidecar_) {
      sidecar_->attend();
      if (const std::string failure = sidecar_->failure(); !failure.empty()) fail(failure);
    }
    if (!complaints_.empty()) {
      // A rank reports its failure before another rank can fail as a consequence. So when any
      // report has been read, the report of the cause has arrived too, if both ranks are on this
      // host: it is read now, and the earliest failure is the cause.
      const auto now = std::chrono::steady_clock::now();
      if (!complained_) complained_ = now;
      for (RankHost* host : distinct_) host->read(*this);
      if (distinct_.size() == 1 || now > *complained_ + difference_of_ways)
        fail(complaints_.begin()->second);
    }
    for (const auto& [rank, end] : std::exchange(ends_, {})) {
      running_[rank] = false;
      if (!elastic_ && plan_.ranks[rank].worker < 0) seats_.end();
      if (seats_.has_left(static_cast<int>(rank)) && !ending_) {
        watch_.forget(static_cast<int>(rank));
        seats_.leave(static_cast<int>(rank));
        continue;
      }
      const bool has_reported =
          elastic_ ? !elastic_->knows(static_cast<int>(rank)) || elastic_->is_over()
                   : !result_.records[rank].is_null();
      if (!has_reported || !end.ended_well())
        judge(rank, end);
      else if (elastic_)
        elastic_->ended(static_cast<int>(rank), {}, seconds_now());
    }
  }

  /// Fails the run because a rank has ended. Other ranks may have noticed this end and reported
  /// failures first. So if something other than this launcher killed the rank, or its host is lost,
  /// the run's error names that and not those failures.
  void judge(std::size_t rank, const RankEnd& end) {
    const std::string why =
        fmt::format("{} {}", name(rank), end.text(watch_.last_step(static_cast<int>(rank))));
    const bool killed = end.killed_but_by(SIGTERM) || !end.cause.empty();
    if (elastic_ && !ending_ && end.killed_but_by(SIGTERM)) {
      result_.records[rank] = nullptr;
      watch_.forget(static_cast<int>(rank));
      elastic_->ended(static_cast<int>(rank), why, seconds_now());
      return;
    }
    const bool can_go_on =
        seats_.begins(static_cast<int>(rank)) ||
        ((end.killed_but_by(SIGTERM) || end.lost) && seats_.can_lose(static_cast<int>(rank)));
    if (!ending_ && can_go_on) {
      result_.records[rank] = nullptr;
      watch_.forget(static_cast<int>(rank));
      seats_.lose(static_cast<int>(rank), why, seconds_now());
      return;
    }
    if (!killed && !complaints_.empty()) return;  // the rank has complained, or another one has
    if (!killed && sidecar_) {
      // Perhaps because of the sidecar's failure, which is about to come.
      complaints_.emplace(std::numeric_limits<double>::infinity(), why);
      return;
    }
    fail(why);
    if (!explained_ && !forced_ && !result_.interrupted && killed) {
      explained_ = true;
      result_.error = why;
    }
  }

  /// In an elastic run `process` is the process's seat, and so are the places of the lists below.
  void line(int process, const nlohmann::json& value) override {
    const auto r = static_cast<std::size_t>(process);
    if (!running_.at(r)) return;
    if (elastic_ && elastic_->hear(process, value, seconds_now())) return;
    const int rank = elastic_ ? elastic_->rank_of(process) : process;
    if (store_.hear(process, value)) {
      if (sidecar_ && value.contains("set")) sidecar_->note_set(value["set"][0]);
      if (elastic_ && value.contains("set")) elastic_->note_set(value["set"][0], value["set"][1]);
    } else if (rank < 0) {
      return;  // it has no place in the run
    } else if (value.contains("progress")) {
      if (auto step = value["progress"].find("step"); step != value["progress"].end()) {
        const auto done = step->get<std::int64_t>();
        if (elastic_) elastic_->note_progress(rank, done, seconds_now());
        if (!elastic_) seats_.note_progress(rank, done, seconds_now());
        striker_.note_progress(rank, done, seconds_now());
        watch_.note_step(process, done, value["progress"].value("seconds", 0.0),
                         value["progress"].value("compute_s", 0.0));
      }
      listener_.on_progress(rank, value["progress"]);
    } else if (value.contains("beat")) {
      if (!ending_) watch_.note_beat(process, read_json<Beat>(value["beat"]));
    } else if (value.contains(seat_left)) {
      seats_.say_left(rank);
    } else if (value.contains("record")) {
      if (in_one_process(plan_))
        result_.records = value["record"].get<std::vector<nlohmann::json>>();
      else
        result_.records[static_cast<std::size_t>(rank)] = value["record"];
      if (elastic_) elastic_->finished(process, seconds_now());
    } else if (value.contains("error") && seats_.begins(rank)) {
      listener_.on_output(fmt::format("{}: {}\n", name(r), value["error"].get<std::string>()));
    } else if (value.contains("error")) {
      // Clocks of several hosts tell nothing of each other: there what is heard first counts.
      const double time = distinct_.size() == 1 ? value.value("time", 0.0) : seconds_now();
      complaints_.emplace(time, fmt::format("{}: {}", name(r), value["error"].get<std::string>()));
    }
  }
  void output(int, const std::string& text) override { listener_.on_output(text); }
  void ended(int rank, const RankEnd& end) override {
    if (!running_.at(static_cast<std::size_t>(rank))) return;
    ends_.emplace_back(static_cast<std::size_t>(rank), end);
  }

  /// Tells a worker to leave, for what it does. Returns false if it stays.
  bool remove(int worker, const std::string& why) {
    return elastic_ ? elastic_->remove(worker, why, seconds_now()) : seats_.remove(worker);
  }

  void stood(int rank, bool stands) override {
    if (running_.at(static_cast<std::size_t>(rank)) && !ending_)
      watch_.note_stop(rank, stands, seconds_now());
  }

  void told(const nlohmann::json& value) override {
    if (sidecar_) sidecar_->hear(value);
  }

  std::string name(std::size_t process) const {
    if (plan_.cluster) return "simulation";
    if (elastic_) {
      const int rank = elastic_->rank_of(static_cast<int>(process));
      if (rank < 0) return "a process that waits for its place";
      return fmt::format("rank {} ({})", rank,
                         elastic_->plan().ranks[static_cast<std::size_t>(rank)].role());
    }
    const std::string host = plan_.homes.empty() ? "" : " on " + plan_.homes[process].host;
    return fmt::format("rank {} ({}){}", process, plan_.ranks[process].role(), host);
  }

  ElasticRun::Processes processes() {
    const auto host = [this](int seat) { return hosts_[static_cast<std::size_t>(seat)]; };
    return {
        .start =
            [this, host](int seat, const RunPlan& plan) {
              host(seat)->start(plan, seat);
              running_[static_cast<std::size_t>(seat)] = true;
            },
        .send = [host](int seat, const nlohmann::json& value) { host(seat)->send(seat, value); },
        .set = [this](const std::string& key, const std::string& text) { store_.set(key, text); },
        .kill = [host](int seat) { host(seat)->signal(seat, SIGKILL); },
        .say = [this](const std::string& text) { listener_.on_output(text); },
        .begin_world =
            [this](int world, std::int64_t done) {
              watch_.begin_world();
              listener_.on_world(world, done);
            }};
  }

  Seats::Processes seat_processes() {
    return {
        .start =
            [this](int rank, const RunPlan& plan) {
              hosts_[static_cast<std::size_t>(rank)]->start(plan, rank);
              running_[static_cast<std::size_t>(rank)] = true;
            },
        .set = [this](const std::string& key, const std::string& text) { store_.set(key, text); },
        .kill = [this](int rank) { hosts_[static_cast<std::size_t>(rank)]->signal(rank, SIGKILL); },
        .say = [this](const std::string& text) { listener_.on_output(text); },
        .begin_world = [this] { watch_.begin_world(); }};
  }

  /// The process of a rank of the plan; -1: an elastic run has no such rank now.
  int process_of(int rank) const {
    if (!elastic_) return rank;
    const RankPlan& who = plan_.ranks[static_cast<std::size_t>(rank)];
    for (const RankPlan& present : elastic_->plan().ranks)
      if (present.worker == who.worker && (who.worker >= 0 || present.server == who.server))
        return elastic_->seat_of(present.rank);
    return -1;
  }

  /// The first failure counts; later failures follow from it.
  void fail(const std::string& why) {
    if (ending_) return;
    result_.error = why;
    ending_ = std::chrono::steady_clock::now();
    signal_all(SIGTERM);
  }

  const RunPlan& plan_;
  const std::vector<RankHost*>& hosts_;
  std::vector<RankHost*> distinct_;
  const LaunchListener& listener_;
  RunSidecar* sidecar_;
  std::vector<bool> running_;
  StoreServer store_{[this](int rank, const nlohmann::json& value) {
    hosts_[static_cast<std::size_t>(rank)]->send(rank, value);
  }};
  FaultStriker striker_{
      plan_, seconds_now(),
      [this](int rank, int number) {
        const int process = process_of(rank);
        if (process < 0 || !running_[static_cast<std::size_t>(process)]) return;
        if (elastic_ && number == SIGKILL) elastic_->note_fault(seconds_now());
        hosts_[static_cast<std::size_t>(process)]->signal(process, number);
      },
      [this](const std::string& text) { listener_.on_output(text); },
      [this](int server, const std::string& fault) {
        const std::string key = fault_key(server);
        store_.set(elastic_ ? elastic::key_in(elastic_->plan().generation, key) : key, fault);
      }};
  RankWatch watch_{plan_,
                   {.name = [this](int process) { return name(static_cast<std::size_t>(process)); },
                    .say = [this](const std::string& text) { listener_.on_output(text); },
                    .remove =
                        [this](int process) {
                          return remove(elastic_ ? elastic_->rank_of(process) : process, "is slow");
                        }}};
  Seats seats_{plan_, seat_processes()};           // of any other
  std::optional<ElasticRun> elastic_;              // of an elastic run
  std::multimap<double, std::string> complaints_;  // by the time of the failure
  std::optional<SteadyTime> complained_, ending_, asked_;
  std::vector<std::pair<std::size_t, RankEnd>> ends_;
  bool forced_ = false;     // whether this launcher has sent SIGKILL
  bool explained_ = false;  // whether `error` names a rank that was killed
  LaunchResult result_;
};

}  // namespace

LaunchResult launch(const RunPlan& plan, const std::vector<RankHost*>& hosts,
                    const LaunchListener& listener, const std::function<bool()>& interrupted,
                    RunSidecar* sidecar) {
  return Launch(plan, hosts, listener, sidecar).run(interrupted);
}

LaunchResult launch(const RunPlan& plan, const RankProgram& program, const LaunchListener& listener,
                    const std::function<bool()>& interrupted) {
  LocalHost host(program);
  return launch(plan, std::vector<RankHost*>(plan.ranks.size(), &host), listener, interrupted);
}

}  // namespace ringside
