// Ranks as processes of this host, and the line between each of them and their launcher.
#pragma once

#include <functional>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "core/comm/store.h"
#include "core/plan/run_plan.h"

namespace ringside {

/// How a run of processes ended.
struct LaunchResult {
  /// What each rank reported, by rank; null for a rank that did not finish.
  std::vector<nlohmann::json> records;
  /// Empty if every rank finished; else one line that names the first rank that failed and why
  /// (its own message, or its exit signal).
  std::string error;
  bool interrupted = false;
};

/// What is started as a rank. Ranks have none of the launcher's standard output and error: whoever
/// reads those may stop, and must not stop ranks.
struct RankProgram {
  std::string file;
  std::vector<std::string> arguments;    // the number of a socket is added
  std::vector<std::string> environment;  // "NAME=VALUE"; what the rank's plan says goes first
  /// Takes what ranks write to theirs (warnings of libraries); must not block.
  std::function<void(const std::string& text)> on_output = [](const std::string&) {};
};

/// Starts one process a rank of `plan`, or a single one for all ranks of a simulated cluster, whose
/// record is the list of theirs, serves their rendezvous store, and blocks until all have ended.
/// When a rank fails the others are ended within 5 seconds; so are all when `interrupted` returns
/// true (polled ten times a second). Ranks die with the launcher. Leaves no process, file or shared
/// memory behind.
LaunchResult launch(const RunPlan& plan, const RankProgram& program,
                    const std::function<void(int rank, const nlohmann::json&)>& on_progress,
                    const std::function<bool()>& interrupted);

/// A rank's end of the line.
class LauncherLink {
 public:
  /// Takes the socket that launch() passed as the last argument. Throws Error if it is none.
  LauncherLink(int socket, const DefaultOptions& defaults);
  ~LauncherLink();

  int rank() const;
  const RunPlan& plan() const;
  Store& store();
  void report_progress(const nlohmann::json& progress);
  /// The last word of a rank: its record, or why it failed.
  void finish(const nlohmann::json& record);
  void fail(const std::string& message);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace ringside
