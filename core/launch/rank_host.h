// RankHost: starts and watches the processes of ranks on one host, this one or another.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "core/base/fields.h"
#include "core/plan/run_plan.h"

namespace ringside {

/// The end of a rank's process.
struct RankEnd {
  std::optional<int> status;  // of waitpid(); none if it is not known
  std::string last_line;      // of the rank's standard output or error
  std::string cause;          // why the status is not known; empty: another caller collected it
  bool lost = false;          // the connection with the rank's host has ended
  std::string memory{};       // a note if the system killed it for lack of memory

  /// Whether the process ended by a signal other than `number`.
  bool killed_but_by(int number) const;
  /// Whether the process ended with exit code 0.
  bool ended_well() const;
  /// The end of the process in words, after the rank's name: "was killed by signal 9 (Killed)".
  /// Adds what may explain the end: `step`, the last line that the rank wrote, and a limit of the
  /// system (`ulimit`, memory) that the rank may have reached.
  std::string text(const std::string& step) const;
};

/// Callbacks for the events of ranks' processes.
class RankEvents {
 public:
  virtual ~RankEvents() = default;
  /// A message of the rank to its launcher.
  virtual void line(int rank, const nlohmann::json& value) = 0;
  /// Text that the rank wrote to its standard output or error.
  virtual void output(int rank, const std::string& text) = 0;
  /// The rank's process has ended; all its messages and output have been passed on before.
  virtual void ended(int rank, const RankEnd& end) = 0;
  /// The rank's process was stopped by a signal, or goes on after that.
  virtual void stood(int rank, bool stands) { static_cast<void>(rank), static_cast<void>(stands); }
  /// The host's answer to tell().
  virtual void told(const nlohmann::json&) {}
};

/// The lead of a host's clock (seconds_now()) over this process's, known to within `error_s`.
struct ClockDifference {
  double ahead_s = 0, error_s = 0;
};

/// Starts processes of ranks. The ranks of one run are known by their numbers; a host runs one
/// run at a time.
class RankHost {
 public:
  /// Leaves no process behind.
  virtual ~RankHost() = default;

  /// Starts the process of a rank, and tells the rank its plan. Throws Error if the system refuses.
  virtual void start(const RunPlan& plan, int rank) = 0;
  /// Sends a message to a rank; does nothing if the rank has ended.
  virtual void send(int rank, const nlohmann::json& value) = 0;
  virtual void signal(int rank, int number) = 0;
  /// Gives up a host whose ranks do not end; they are reported as lost.
  virtual void drop() {}
  /// Sends the host a message that concerns no rank; the default ignores it.
  virtual void tell(const nlohmann::json&) {}
  /// Whether the host cannot be reached any more.
  virtual bool lost() const { return false; }

  /// The files to poll for news.
  virtual std::vector<int> files() const = 0;
  /// Whether news is due that no file announces: a process is about to end.
  virtual bool expects_end() const = 0;
  /// Passes on the events since the last call; does not block.
  virtual void read(RankEvents& events) = 0;

  /// Measured while none of its ranks runs; may block for a moment. Throws Error if the host cannot
  /// be reached.
  virtual ClockDifference clock() { return {}; }
};

/// Waits until one of the hosts has news, or one of the files can be read, at most `timeout_ms`.
void wait_for_news(const std::vector<RankHost*>& hosts, const std::vector<int>& files,
                   int timeout_ms);

}  // namespace ringside
