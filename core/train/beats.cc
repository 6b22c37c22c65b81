#include "core/train/beats.h"

#include <chrono>
#include <utility>

#include "core/base/seconds_now.h"

namespace ringside {

Fields fields_of(Beat& beat) { return {{"quiet_s", &beat.quiet_s}, {"waits", &beat.waits}}; }

Beats::Beats(const Timeline& timeline, std::function<void(const Beat&)> send)
    : timeline_(timeline),
      send_(std::move(send)),
      last_step_(seconds_now()),
      thread_([this] { run(); }) {}

Beats::~Beats() {
  {
    const std::lock_guard lock(mutex_);
    ended_ = true;
  }
  ends_.notify_all();
  thread_.join();
}

void Beats::note_step() {
  const std::lock_guard lock(mutex_);
  last_step_ = seconds_now();
}

void Beats::run() {
  std::unique_lock lock(mutex_);
  while (!ends_.wait_for(lock, std::chrono::seconds(1), [this] { return ended_; })) {
    const Beat beat{seconds_now() - last_step_, timeline_.waits()};
    if (beat.quiet_s < quiet_s) continue;
    lock.unlock();
    send_(beat);
    lock.lock();
  }
}

}  // namespace ringside
