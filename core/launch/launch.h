// Runs: their ranks as processes, their store, and the end of each rank.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "core/comm/store.h"
#include "core/launch/local_host.h"
#include "core/launch/rank_host.h"
#include "core/launch/run_sidecar.h"
#include "core/observe/run_record_parts.h"
#include "core/plan/run_plan.h"

namespace ringside {

class RankLink;

/// The word of a worker that leaves its seat.
inline constexpr const char* seat_left = "left seat";

/// The outcome of a run of processes.
struct LaunchResult {
  /// The record of each rank, by rank; null for a rank that did not finish.
  std::vector<nlohmann::json> records;
  /// Empty if every rank finished; otherwise one line that names the first rank that failed and the
  /// reason (the rank's own message, or the signal that ended it).
  std::string error;
  /// The values that ranks have left in the store for the user (kept_key), by the rest of the key.
  std::map<std::string, std::string> kept;
  /// Workers that are away at the end of a run that went on (RunPlan::expendable): how they left,
  /// by worker.
  std::map<int, std::string> lost;
  /// Workers that computed slower than the others (core/launch/straggler_watch.h): how slow, by
  /// rank.
  std::map<int, std::string> slow;
  /// The time during which this process did not run, in seconds: it asks to be woken ten times a
  /// second, and was not, because all processes were stopped or the machine was paused.
  double stood_still_s = 0;
  /// Of an elastic run: its plan at the last of its worlds, of which `records` are.
  std::optional<RunPlan> at_end{};
  /// The worlds of a run whose workers come and go.
  std::vector<WorldPeriod> worlds{};
  FaultsConfig faults{};  // of the plan, with what has struck
  bool interrupted = false;
  /// Whether the ranks were told to write a checkpoint and end, and did.
  bool stopped = false;
};

/// Callbacks during a run, which must not block.
struct LaunchListener {
  std::function<void(int rank, const nlohmann::json&)> on_progress = [](int,
                                                                        const nlohmann::json&) {};
  /// Takes the standard output and error of ranks (warnings of libraries).
  std::function<void(const std::string& text)> on_output = [](const std::string&) {};
  /// An elastic run has so many workers from now on, which begin with the step after `done`.
  std::function<void(int world, std::int64_t done)> on_world = [](int, std::int64_t) {};
};

/// Starts one process for each rank of `plan`, rank r on `hosts[r]`, serves the ranks' rendezvous
/// store, and blocks until all processes have ended. Where one process runs all ranks
/// (in_one_process()), `hosts` has one entry, and that process reports the list of the ranks'
/// records.
///
/// A rank and its launcher exchange lines of JSON over a socket. The launcher begins with {"rank",
/// "plan"}; it answers {"get": key} with {"value": [key, value]} once the key has been set by
/// {"set": [key, value]}. A rank sends {"progress": ...} after each step, {"beat": ...} every
/// second while it ends none (core/observe/beats.h), and last {"record": ...}, or {"error": text,
/// "time": seconds since the host's start}. Another program (RunPlan::program) is started as
/// COMMAND SCRIPT RINGSIDE SOCKET, where RINGSIDE is a file that starts this program.
///
/// When a rank fails, the other ranks are ended within 5 seconds, unless the rank is an expendable
/// worker whose process has ended by a signal: then the other ranks are told (lost_key()) and go
/// on, and a new process may take its seat (core/launch/seats.h). A worker that leaves its seat
/// says
/// {"left seat": true} in place of its record. When `interrupted`, which is called ten times a
/// second, returns true, all ranks are ended within 5 seconds; those of a run with checkpoints are
/// told to write one (stop_key), and have train.timeout_s to do so. The workers of an elastic run
/// (is_elastic()) may end, and others come (core/launch/elastic_run.h); it needs all ranks on this
/// host. Ranks die with the launcher. Leaves no process, file or shared memory behind. `sidecar`
/// (may be null) works beside the ranks.
LaunchResult launch(const RunPlan& plan, const std::vector<RankHost*>& hosts,
                    const LaunchListener& listener, const std::function<bool()>& interrupted,
                    RunSidecar* sidecar = nullptr);
/// The same with all ranks on this host.
LaunchResult launch(const RunPlan& plan, const RankProgram& program, const LaunchListener& listener,
                    const std::function<bool()>& interrupted);

/// A rank's end of the connection to its launcher.
class LauncherLink {
 public:
  /// `socket` is the number that LocalHost passed as the last argument. Throws Error if it is not
  /// such a socket, and what `read` throws.
  LauncherLink(int socket, const ReadPlan& read);
  ~LauncherLink();

  int rank() const;
  const RunPlan& plan() const;
  Store& store();
  /// For messages beside those below.
  RankLink& link();
  void report_progress(const nlohmann::json& progress);
  /// Sends a rank's last message: its record, or the reason of its failure.
  void finish(const nlohmann::json& record);
  void fail(const std::string& message);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace ringside
