#include "core/launch/heartbeat.h"

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <nlohmann/json.hpp>

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

}  // namespace ringside
