#include "ps/protocol/meetings.h"

#include <algorithm>

#include "core/base/error.h"

namespace ringside::ps {

void Meetings::plan(std::int64_t every, std::int64_t steps) {
  planned_ = true;
  every_ = every;
  last_ = steps;
}

void Meetings::end_after(std::int64_t begun) {
  last_ = std::min(last_, std::max({in_whole_periods(begun), held_, std::int64_t{1}}));
}

std::optional<std::int64_t> Meetings::due() const {
  if (!planned_ || cancelled_ || held_ >= last_) return {};
  const std::int64_t next = every_ == 0 ? last_ : (held_ / every_ + 1) * every_;
  return next >= last_ ? last_ : std::min(last_, in_whole_periods(next));
}

std::int64_t Meetings::limit() const { return due().value_or(last_); }

bool Meetings::is_over(std::int64_t done) const {
  return planned_ && (cancelled_ ? done : held_) >= last_;
}

void Meetings::check_planned() const {
  if (!planned_) throw Error("the run writes no checkpoints, so its workers do not meet");
}

Header Meetings::go(const Header& request) {
  check_planned();
  const std::optional<std::int64_t> next = due();
  if (!next || request.step < *next) begun_ = std::max(begun_, request.step + 1);
  Header reply = reply_to(request);
  reply.version = next.value_or(0);
  reply.scalar = is_over(request.step) ? 1 : 0;
  return reply;
}

bool Meetings::come(int worker, const Header& request) {
  check_planned();
  if (has_come(worker)) throw Error("the worker has come to this meeting already");
  if (request.step <= left_out_) return false;
  if (const std::vector<int> others = waiting(); !others.empty() && request.step != step_)
    throw Error("the worker comes to a meeting after {} steps, but worker {} to one after {}",
                request.step, others[0], step_);
  if (request.step <= held_)
    throw Error("the worker comes to a meeting after {} steps, but the one before was after {}",
                request.step, held_);
  step_ = request.step;
  requests_[static_cast<std::size_t>(worker)] = request;
  return true;
}

std::vector<int> Meetings::waiting() const {
  std::vector<int> out;
  for (std::size_t w = 0; w < requests_.size(); ++w)
    if (requests_[w]) out.push_back(static_cast<int>(w));
  return out;
}

std::vector<Header> Meetings::end() {
  if (!cancelled_) held_ = step_;
  if (away_ > 0) left_out_ = step_;
  std::vector<Header> out;
  for (std::optional<Header>& request : requests_) {
    if (!request) continue;
    out.push_back(reply_to(*request));
    out.back().version = are_left_out() ? 0 : step_;
    request.reset();
  }
  return out;
}

}  // namespace ringside::ps
