// Heartbeats between the processes of a job.
#pragma once

#include <string>
#include <thread>

#include "core/base/json_line.h"
#include "core/base/waiting_time.h"

namespace ringside {

/// The interval of heartbeats, and the silences after which a process is named, and given up.
inline constexpr double beat_every_s = 1, named_silence_s = 2.5, longest_silence_s = 5;

/// A thread that sends {"alive": true} on a line, at once and then every second, so that the other
/// end knows that this process runs, whatever its other threads do. A stopped process sends
/// nothing, although its system keeps the connection.
class Heartbeat {
 public:
  /// `line` outlives this object.
  explicit Heartbeat(JsonLine& line);

 private:
  std::jthread thread_;
};

/// The length of the other process's silence. The time during which this process was stopped does
/// not count.
class Silence {
 public:
  explicit Silence(double now) : waited_(now, beat_every_s) {}
  /// Notes that a message has arrived.
  void end(double now) { waited_ = WaitingTime(now, beat_every_s); }
  /// Call it at least every `beat_every_s`, after reading the messages that have arrived.
  double seconds(double now) { return waited_.seconds(now); }
  /// Whether the other process has to be named now, or is heard again after it was: then the
  /// message about `who`, whose silence this is. Empty otherwise. `way_s` is the round trip of the
  /// line (round_trip_s()), for which a slow link delays beats besides.
  std::string news(double now, const std::string& who, double way_s);

 private:
  bool named_ = false;
  WaitingTime waited_;
};

/// The round trip of a line over TCP as its system has measured it, queues on the way included; 0
/// for other lines.
double round_trip_s(const JsonLine& line);

}  // namespace ringside
