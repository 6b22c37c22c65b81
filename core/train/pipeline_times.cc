#include "core/train/pipeline_times.h"

#include <algorithm>

namespace ringside {

using pipeline::Operation;

namespace {

/// How much of [begin, end] these intervals cover, which ascend and do not overlap.
double covered_by(const std::vector<std::pair<double, double>>& intervals, double begin,
                  double end) {
  double out = 0;
  auto next = std::ranges::lower_bound(intervals, begin, {}, &std::pair<double, double>::second);
  for (; next != intervals.end() && next->first < end; ++next)
    out += std::min(end, next->second) - std::max(begin, next->first);
  return out;
}

}  // namespace

void PipelineTimes::note_under_way(int stage, std::int64_t count) {
  std::int64_t& most = most_under_way_[stage];
  most = std::max(most, count);
}

void PipelineTimes::count_step(std::int64_t bytes_sent) {
  const auto exposed = timeline_.covered(Activity::exposed, begin_);
  for (const Timed& timed : actions_) {
    Sum& sum = sums_[{timed.action.stage, timed.action.operation}];
    const double begin = device_.seconds(begin_, timed.begin),
                 end = device_.seconds(begin_, timed.end);
    sum.seconds += end - begin - covered_by(exposed, begin, end);
    sum.count += !timed.is_rest;
  }
  for (const auto& [begin, end] : waits_) waiting_.seconds += device_.seconds(begin, end);
  ++waiting_.count;
  sent_ += bytes_sent - sent_before_;
}

PipelineRecord PipelineTimes::record() const {
  PipelineRecord out;
  out.waiting_ms = waiting_.mean_ms();
  if (waiting_.count > 0)
    out.bytes_sent_per_step = static_cast<double>(sent_) / static_cast<double>(waiting_.count);
  for (const auto& [stage, most] : most_under_way_) {
    const auto mean = [&, own = stage](Operation operation) {
      const auto sum = sums_.find({own, operation});
      return sum == sums_.end() ? 0.0 : sum->second.mean_ms();
    };
    out.stages.push_back({.stage = stage,
                          .forward_ms = mean(Operation::forward),
                          .backward_ms = mean(Operation::backward),
                          .input_gradient_ms = mean(Operation::input_gradient),
                          .weight_gradient_ms = mean(Operation::weight_gradient),
                          .most_under_way = most});
  }
  return out;
}

}  // namespace ringside
