#include "core/launch/heartbeat.h"

#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

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

double round_trip_s(const JsonLine& line) {
  tcp_info info{};
  socklen_t length = sizeof info;
  if (getsockopt(line.socket(), IPPROTO_TCP, TCP_INFO, &info, &length) != 0) return 0;
  return 1e-6 * info.tcpi_rtt;
}

std::string Silence::news(double now, const std::string& who, double way_s) {
  const double allowed_s = named_silence_s + way_s;
  const bool silent = seconds(now) > allowed_s;
  if (silent == std::exchange(named_, silent)) return "";
  if (!silent) return fmt::format("{} is heard again", who);
  return fmt::format(
      "{} has said nothing for {:.1f} s: it stands still, or a link is down or full; it is given "
      "up after "
      "{} s",
      who, allowed_s, longest_silence_s);
}

}  // namespace ringside
