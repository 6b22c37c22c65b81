#include "experiments/runner/run/rank_timer.h"

#include <fmt/format.h>

#include "core/device/sim/timed_operations.h"
#include "experiments/runner/run/timed_flats.h"

namespace ringside::runner {
namespace {

std::vector<sim::TimedOperation> as_recorded(const std::vector<TimedOp>& ops, bool tf32) {
  std::vector<sim::TimedOperation> out;
  for (const TimedOp& op : ops)
    out.push_back(sim::timed_operation(op.cost, op.seconds + op.before, tf32));
  return out;
}

}  // namespace

void RankTimer::begin_step(std::int64_t done) {
  if (done == plan_.train.warmup) meet();
  steps_.begin();
}

void RankTimer::finish(RankRecord& record) {
  const bool tf32 = plan_.device.tf32;
  record.operations = as_recorded(steps_.take_medians(), tf32);
  if (plan_.repeat == 0)
    record.pieces =
        as_recorded(time_flats(plan_, device_, record.parameters, [this] { meet(); }), tf32);
}

void RankTimer::meet() {
  const auto key = [this](std::size_t rank) {
    return fmt::format("timing/{}/{}", meetings_, rank);
  };
  const std::size_t ranks = plan_.ranks.size();
  if (ranks > 1) {
    store_.set(key(static_cast<std::size_t>(rank_)), "");
    for (std::size_t r = 0; r < ranks; ++r) store_.get(key(r), plan_.train.timeout_s);
  }
  ++meetings_;
}

}  // namespace ringside::runner
