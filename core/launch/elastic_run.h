// ElasticRun: the launcher's part in a run whose workers come and go.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "core/checkpoint/host_copies.h"
#include "core/launch/membership.h"
#include "core/observe/run_record_parts.h"
#include "core/plan/run_plan.h"

namespace ringside {

/// The words of the messages between the launcher of an elastic run and its processes, besides
/// those of launch(). A process that comes late is started with a plan of generation -1 and says
/// {"ready": true}. The launcher says {"interrupt": generation}, which the members of that
/// generation answer with {"left": generation} once they have given up their step; members that
/// were asked to go after a step (change_key) say so too. A new place is {"rank", "plan"}, as at
/// the start;
/// {"dismiss": true} ends the process.
namespace elastic {
inline constexpr const char *ready = "ready", *left = "left", *interrupted = "interrupt",
                            *dismissed = "dismiss";
/// A key of the store for the ranks of one generation. What the launcher tells all ranks of a run
/// (stop_key), and what is for the user, is the same for all.
std::string key_in(std::int64_t generation, const std::string& key);
}  // namespace elastic

/// Keeps the members of a run (Membership) and the copies of their state (HostCopies): opens the
/// files of copies as soon as a process has told of them, so that they outlive it. When the world
/// changes, the next generation goes on from the newest step of which every part has a copy; if
/// there is none, from where the present one began. For one thread.
class ElasticRun {
 public:
  /// How to reach the processes of the run.
  struct Processes {
    std::function<void(int seat, const RunPlan& plan)> start;
    std::function<void(int seat, const nlohmann::json& message)> send;
    std::function<void(const std::string& key, const std::string& value)> set;
    std::function<void(int seat)> kill;
    std::function<void(const std::string& text)> say;
    std::function<void(int world, std::int64_t done)> begin_world;
  };
  /// The processes of the largest world have been started with this plan.
  ElasticRun(const RunPlan& plan, Processes processes);

  /// Takes a message of a process; returns false if it is none of the above.
  bool hear(int seat, const nlohmann::json& message, double now);
  /// A process has set a key of the store.
  void note_set(const std::string& key, const std::string& value);
  /// The process of a seat has ended; `why` is empty if it was dismissed.
  void ended(int seat, const std::string& why, double now);
  /// The member has reported its record.
  void finished(int seat, double now);
  /// A rank has done a step.
  void note_progress(int rank, std::int64_t steps, double now);
  /// The worker should leave, for what it does. Returns false if it stays (Membership::remove).
  bool remove(int worker, const std::string& why, double now);
  /// One more worker should come.
  void add(double now);
  /// A fault on purpose strikes now.
  void note_fault(double now) { struck_at_ = now; }
  /// Ends processes that do not leave in time; to be called several times a second.
  void attend(double now);

  /// The plan of the present generation.
  const RunPlan& plan() const { return plan_; }
  int seat_of(int rank) const { return members_.seat_of(rank); }
  int rank_of(int seat) const { return members_.rank_of(seat); }
  bool knows(int seat) const { return processes_there_.contains(seat); }
  bool is_over() const { return over_; }
  /// Why the run cannot go on; empty while it can.
  const std::string& failure() const { return failure_; }
  const std::vector<WorldPeriod>& periods() const { return periods_; }

 private:
  void act(double now);
  void begin_change(const std::string& why, double now);
  void form(const MembershipAction& action, double now);
  /// The newest step of which each part of the generation has a copy, and these copies; -1: none.
  std::int64_t newest_step(std::vector<shm::Address>& files) const;
  /// The parts that copy their state; none as long as a server has not said whether it does.
  std::vector<std::string> parts() const;

  RunPlan plan_;
  Processes processes_;
  Membership members_;
  std::set<int> processes_there_;
  std::map<std::string, std::vector<HostCopy>> copies_;  // of the generation, by part
  std::map<int, bool> keeps_;                            // whether a server has values to copy
  std::map<std::string, std::vector<HostCopy>> base_;    // from which the generation began
  std::map<int, std::int64_t> done_;                     // steps, by rank
  std::vector<WorldPeriod> periods_;
  std::int64_t asked_ = -1;    // the generation that was told to end
  std::string cause_;          // of the present change
  double changed_at_ = 0;      // when it began
  double recovers_since_ = 0;  // when the one began that led to this generation
  double struck_at_ = -1;
  std::set<int> on_the_way_;  // ranks that have not done a step of this generation
  bool over_ = false;
  std::string failure_;
};

}  // namespace ringside
