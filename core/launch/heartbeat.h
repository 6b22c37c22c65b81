// Heartbeats between the processes of a job.
#pragma once

#include <thread>

#include "core/base/waiting_time.h"
#include "core/launch/json_line.h"

namespace ringside {

/// How often a process says that it runs, and how long it may say nothing before it is given up.
inline constexpr double beat_every_s = 1, longest_silence_s = 5;

/// A thread that says {"alive": true} on a line, now and once a second, so that the other end knows
/// that this process runs, whatever its other threads compute or wait for. A process that is
/// stopped says nothing, although its system keeps the connection.
class Heartbeat {
 public:
  /// `line` outlives this object.
  explicit Heartbeat(JsonLine& line);

 private:
  std::jthread thread_;
};

/// How long the process at the other end has said nothing. The time during which this process was
/// stopped does not count.
class Silence {
 public:
  explicit Silence(double now) : waited_(now, beat_every_s) {}
  /// Something has come.
  void end(double now) { waited_ = WaitingTime(now, beat_every_s); }
  /// To be called at least every `beat_every_s`, after what has come was read.
  double seconds(double now) { return waited_.seconds(now); }

 private:
  WaitingTime waited_;
};

}  // namespace ringside
