// Faults on purpose: what strikes which rank, and when.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "core/plan/run_plan.h"

namespace ringside {

/// A fault that [faults] plan asks for. A worker's strikes once it has done `step` steps, a
/// server's once any worker has.
struct Fault {
  enum class Kind : std::uint8_t {
    kill,    // the rank's process gets SIGKILL
    stop,    // SIGSTOP, and SIGCONT `amount` seconds later
    slow,    // from that step on the worker computes `amount` times as long (core/train/slowdown.h)
    hang,    // the thread that trains or serves sleeps for ever, and its process lives on
    poison,  // the first micro-batch of the worker's next step has no finite output
    flip,    // one bit of one of the worker's parameters
    cut,     // the connections of the server's process are closed
    remove,  // the worker leaves an elastic run after a step
    add      // one more worker comes to an elastic run
  };
  Kind kind = Kind::kill;
  bool server = false;
  int number = 0;
  /// poison: of so many workers, for which the ranks of the plan stand; 0: the plan's own.
  int of = 0;
  std::int64_t step = 0;
  double amount = 0;
};

/// Whether it strikes a server that brings it about itself: no signal can.
inline bool is_own_of_server(const Fault& fault) {
  return fault.server && (fault.kind == Fault::Kind::cut || fault.kind == Fault::Kind::hang);
}

/// Reads "kill worker 1 at step 10", "stop server 0 at step 20 for 5 s", "slow worker 3 by 2 from
/// step 40", or one of "hang" either, "poison" and "flip" a worker or "cut" a server "at step 10";
/// also "poison worker 1 of 4 at step 10". Throws Error that names the text, and what may stand
/// there.
Fault fault_from(const std::string& text);

/// The value of faults.rate that stands for the failures of a simulated cluster.
inline constexpr std::string_view rate_of_cluster = "cluster";

/// Reads a rate of random kills: "1/min", "0.5/s", "3/h". Returns kills a second. Throws Error.
double kills_per_s(const std::string& rate);

/// Throws Error for faults that cannot strike the ranks of the plan. A plan without servers has
/// none to lose: then faults of servers strike nobody, so that one list does for all schemes.
void check_faults(const RunPlan& plan);

/// The rank that a fault strikes; -1: none.
int struck_rank(const RunPlan& plan, const Fault& fault);

/// Whether a rank is a worker that the run may be able to do without (RunPlan::expendable): not
/// worker 0, which reports the parameters at the end, and no worker with a server.
bool may_be_lost(const RunPlan& plan, int rank);

/// The workers that faults.plan kills and the run goes on without, with the steps after which they
/// die. Of more than the run can do without they are those that die first.
std::map<int, std::int64_t> lost_on_purpose(const RunPlan& plan);
/// The key of the run's store that the launcher sets when a fault strikes a server which no signal
/// can bring about; its value is the name of the fault, "cut" or "hang".
inline std::string fault_key(int server) { return "fault/server-" + std::to_string(server); }
/// Whether such a fault strikes the server at some time, and has not yet.
bool strikes_itself(const RunPlan& plan, int server);

/// Whose first micro-batch of a step a poison strikes: that of data worker `worker`, of `of`. With
/// a pipeline these are the replicas of the model.
struct Poisoned {
  int worker = 0, of = 1;
};
Poisoned poisoned_by(const RunPlan& plan, const Fault& poison);

/// The poisons of a run, for the list of its definition: they belong to the data of its workers, so
/// that the definition, which has the same data, skips the same steps.
std::vector<std::string> poisons_for_definition(const RunPlan& run);

}  // namespace ringside
