#include "core/observe/beats.h"

#include <chrono>
#include <utility>

#include "core/base/seconds_now.h"

namespace ringside {
namespace {

constexpr double period_s = 1;

}  // namespace

Fields fields_of(Beat& beat) {
  return {{"quiet_s", &beat.quiet_s}, {"waits", &beat.waits}, {"serves", &beat.serves}};
}

Beats::Beats(const Timeline& timeline, Of of, std::function<void(const Beat&)> send)
    : timeline_(timeline),
      of_(of),
      send_(std::move(send)),
      alive_(seconds_now(), period_s),
      thread_([this] { run(); }) {}

Beats::~Beats() {
  {
    const std::lock_guard lock(mutex_);
    ended_ = true;
  }
  ends_.notify_all();
  thread_.join();
}

void Beats::note_progress() {
  const std::lock_guard lock(mutex_);
  last_ = alive_.seconds(seconds_now());
}

void Beats::run() {
  std::unique_lock lock(mutex_);
  while (
      !ends_.wait_for(lock, std::chrono::duration<double>(period_s), [this] { return ended_; })) {
    const Beat beat{alive_.seconds(seconds_now()) - last_, timeline_.waits(), of_ == Of::server};
    if (beat.quiet_s < quiet_s) continue;
    lock.unlock();
    send_(beat);
    lock.lock();
  }
}

}  // namespace ringside
