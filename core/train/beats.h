// Beats: a worker that makes no progress says so, and whether it waits for others.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

#include "core/base/fields.h"
#include "core/observe/timeline.h"

namespace ringside {

/// What a worker's process says of its training thread, which has ended no step for a while.
struct Beat {
  double quiet_s = 0;  // since its last step, or since it began
  bool waits = false;  // it waits for other ranks; else it computes, or stands still
};

Fields fields_of(Beat& beat);

/// Sends a beat every second once the training thread has ended no step for `quiet_s`, from a
/// thread of its own: the training thread may be stuck. A process that is stopped sends none.
class Beats {
 public:
  static constexpr double quiet_s = 3;

  /// `send` is called by that thread. The arguments outlive this object.
  Beats(const Timeline& timeline, std::function<void(const Beat&)> send);
  ~Beats();
  Beats(const Beats&) = delete;
  Beats& operator=(const Beats&) = delete;

  /// The training thread has ended a step.
  void note_step();

 private:
  void run();

  const Timeline& timeline_;
  std::function<void(const Beat&)> send_;
  std::mutex mutex_;
  std::condition_variable ends_;
  bool ended_ = false;
  double last_step_;  // in seconds_now()
  std::thread thread_;
};

}  // namespace ringside
