#include "core/launch/heartbeat.h"

#include <fmt/format.h>

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

std::string Silence::news(double now, const std::string& who) {
  const bool silent = seconds(now) > named_silence_s;
  if (silent == std::exchange(named_, silent)) return "";
  if (!silent) return fmt::format("{} is heard again", who);
  return fmt::format(
      "{} has said nothing for {} s: it stands still, or a link is down; it is given up after {} s",
      who, named_silence_s, longest_silence_s);
}

}  // namespace ringside
