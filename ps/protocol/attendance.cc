#include "ps/protocol/attendance.h"

#include <algorithm>
#include <cstdint>

#include "core/base/error.h"

namespace ringside::ps {
namespace {

/// No sleep between two checks for silent workers is longer than this, whatever the timeout is.
constexpr double patience_s = 1;

}  // namespace

Attendance::Attendance(int workers, const Channel& channel, const Clock& clock, double timeout_s)
    : channel_(channel),
      clock_(clock),
      timeout_s_(timeout_s),
      waited_(clock.now(), nap_s()),
      workers_(static_cast<std::size_t>(workers)) {}

double Attendance::nap_s() const { return std::min(patience_s, timeout_s_ / 16); }

void Attendance::heard(int worker) {
  if (worker < 0 || static_cast<std::size_t>(worker) >= workers_.size()) return;
  Worker& one = workers_[static_cast<std::size_t>(worker)];
  one.last = waited_.seconds(clock_.now());
  one.came = one.whole = true;
}

bool Attendance::check(const Server& server) {
  const double now = waited_.seconds(clock_.now());
  for (std::size_t w = 0; w < workers_.size(); ++w) {
    if (now - workers_[w].last > timeout_s_ / 8) look_for_parts(w, now);
    if (server.seats().is_done(static_cast<int>(w)) || now - workers_[w].last <= timeout_s_)
      continue;
    if (!workers_[w].came)
      throw Error(
          "worker {} did not connect within {} s; raise train.timeout_s if its start really takes "
          "so long",
          w, timeout_s_);
    throw Error(
        "worker {} has been silent for {} s; the server waits for the worker's part of step {}; "
        "raise train.timeout_s if the worker really computes for that long",
        w, timeout_s_, server.steps());
  }
  if (now - reassured_ < timeout_s_ / 4) return false;
  reassured_ = now;
  return true;
}

void Attendance::look_for_parts(std::size_t w, double now) {
  Worker& one = workers_[w];
  const std::int64_t moved = channel_.moved(static_cast<int>(w));
  if (std::exchange(one.whole, false)) return one.link.begin(moved);
  if (!one.link.flows(moved)) return;
  one.last = now;
  parts_came_ = true;
}

}  // namespace ringside::ps
