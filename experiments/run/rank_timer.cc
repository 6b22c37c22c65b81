#include "experiments/run/rank_timer.h"

#include <fmt/format.h>

#include "core/device/cost.h"
#include "experiments/run/timed_flats.h"

namespace ringside {
namespace {

std::vector<sim::TimedOperation> as_recorded(const std::vector<TimedOp>& ops) {
  std::vector<sim::TimedOperation> out;
  for (const TimedOp& op : ops)
    out.push_back({.training = {},
                   .dtype = figures_dtype(op.cost),
                   .kind = std::string(name_of(op.cost.kind)),
                   .operations = op.cost.operations,
                   .bytes = op.cost.bytes,
                   .us = 1e6 * (op.seconds + op.before)});
  return out;
}

}  // namespace

void RankTimer::begin_step(std::int64_t done) {
  if (done == plan_.train.warmup) meet();
  steps_.begin();
}

void RankTimer::finish(RankRecord& record) {
  record.operations = as_recorded(steps_.medians());
  if (plan_.repeat == 0)
    record.pieces = as_recorded(time_flats(plan_, device_, record.parameters, [this] { meet(); }));
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

}  // namespace ringside
