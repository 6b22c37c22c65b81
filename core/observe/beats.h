// Beats: a rank that makes no progress says so, and whether it waits for others.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <thread>

#include "core/base/fields.h"
#include "core/base/waiting_time.h"
#include "core/observe/timeline.h"

namespace ringside {

/// What a process says of its rank's thread, which trains and has ended no step for a while, or
/// serves and has not looked for messages.
struct Beat {
  double quiet_s = 0;   // since then, or since it began
  bool waits = false;   // it waits for other ranks; else it computes, or stands still
  bool serves = false;  // it looks for messages about once a second, if it does not stand still
};

Fields fields_of(Beat& beat);

/// Sends a beat every second once the rank's thread has made no progress for `quiet_s`, from a
/// thread of its own: the rank's may be stuck. A process that is stopped, or held by a debugger,
/// sends none, and that time does not count.
class Beats {
 public:
  static constexpr double quiet_s = 3;
  enum class Of : std::uint8_t { worker, server };

  /// `send` is called by that thread. The timeline outlives this object.
  Beats(const Timeline& timeline, Of of, std::function<void(const Beat&)> send);
  ~Beats();
  Beats(const Beats&) = delete;
  Beats& operator=(const Beats&) = delete;

  /// The worker has ended a step, or the server has looked for messages.
  void note_progress();

 private:
  void run();

  const Timeline& timeline_;
  Of of_;
  std::function<void(const Beat&)> send_;
  std::mutex mutex_;
  std::condition_variable ends_;
  bool ended_ = false;
  WaitingTime alive_;  // of this process
  double last_ = 0;    // progress, in seconds of it
  std::thread thread_;
};

}  // namespace ringside
