// Heartbeats between the processes of a job.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "core/base/json_line.h"
#include "core/base/waiting_time.h"
#include "core/launch/host_links.h"

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
/// not count. On a link whose queue is full, heartbeats wait behind the data of ranks, or are lost
/// and sent again: there silence counts only while nothing at all comes from the other host, but
/// for `longest_excuse_s` at most, since ranks may live longer than their agent.
class Silence {
 public:
  static constexpr double slow_way_s = 0.3;  // the round trip of a link that counts as full
  static constexpr double longest_excuse_s = 15;

  explicit Silence(
      double now, LookAtLinks links = [] { return LinkFacts(); })
      : links_(std::move(links)), waited_(now, beat_every_s) {}
  /// Notes that a message, or a part of one, has arrived.
  void end(double now);
  /// Call it at least every `beat_every_s`, after reading the messages that have arrived.
  double seconds(double now);
  /// Whether the other process has to be named now, or is heard again after it was: then the
  /// message about `who`, whose silence this is. Empty otherwise. A slow link may take its round
  /// trip longer.
  std::string news(double now, const std::string& who);

 private:
  /// Looks whether something comes from the other host, after `waited` seconds of silence.
  void look(double now, double waited);

  LookAtLinks links_;
  bool named_ = false;
  WaitingTime waited_;
  double excused_ = 0;  // of `waited_`
  double way_s_ = 0;    // the round trip, if it is that of a slow link
  double looked_at_ = 0;
  std::optional<std::uint64_t> segments_;  // of the last look in this silence
};

}  // namespace ringside
