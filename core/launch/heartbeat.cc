#include "core/launch/heartbeat.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <nlohmann/json.hpp>
#include <utility>

namespace ringside {

Heartbeat::Heartbeat(JsonLine& line)
    : thread_([&line](const std::stop_token& stop) {
        std::mutex mutex;
        std::condition_variable_any ends;
        std::unique_lock lock(mutex);
        while (!stop.stop_requested()) {
          line.send_at_once({{"alive", true}});
          ends.wait_for(lock, stop, std::chrono::duration<double>(beat_every_s),
                        [] { return false; });
        }
      }) {}

void Silence::end(double now) {
  waited_ = WaitingTime(now, beat_every_s);
  excused_ = 0;
  segments_.reset();
}

double Silence::seconds(double now) {
  // No look is needed while heartbeats come as they should.
  constexpr double look_after_s = 1.5 * beat_every_s, look_every_s = 0.25;
  const double waited = waited_.seconds(now);
  if (waited > look_after_s && (!segments_ || now - looked_at_ >= look_every_s)) look(now, waited);
  return waited - excused_;
}

void Silence::look(double now, double waited) {
  const LinkFacts facts = links_();
  way_s_ = facts.round_trip_s >= slow_way_s ? facts.round_trip_s : 0;
  const bool comes = segments_ && facts.segments > *segments_;
  if (comes && way_s_ > 0) excused_ = std::min(waited, longest_excuse_s);
  segments_ = facts.segments;
  looked_at_ = now;
}

std::string Silence::news(double now, const std::string& who) {
  const double waited = seconds(now);
  const double allowed_s = named_silence_s + way_s_;
  const bool silent = waited > allowed_s;
  if (silent == std::exchange(named_, silent)) return "";
  if (!silent) return fmt::format("{} is heard again", who);
  return fmt::format(
      "{} has said nothing for {:.1f} s: it stands still, or a link is down; it is given up after "
      "{} s",
      who, allowed_s, longest_silence_s);
}

}  // namespace ringside
