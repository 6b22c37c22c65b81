#include "experiments/runner/report/curves.h"

#include <algorithm>

namespace ringside::runner {
namespace {

/// The positions of at most most_points out of `count` points.
std::vector<std::size_t> kept(std::size_t count) {
  const std::size_t points = std::min(count, most_points);
  std::vector<std::size_t> out;
  for (std::size_t i = 0; i < points; ++i)
    out.push_back(points == count ? i : i * (count - 1) / (points - 1));
  return out;
}

void add_point(LossCurve& curve, const RunRecord& row, std::int64_t steps, double seconds,
               double loss) {
  curve.step.push_back(steps);
  curve.samples.push_back(static_cast<double>(steps * row.plan.train.global_batch));
  curve.seconds.push_back(seconds);
  curve.bytes.push_back(static_cast<double>(steps) * bytes_of_all_ranks(row));
  curve.loss.push_back(loss);
}

}  // namespace

Fields fields_of(LossCurve& curve) {
  return {{"step", &curve.step},   {"samples", &curve.samples}, {"seconds", &curve.seconds},
          {"bytes", &curve.bytes}, {"loss", &curve.loss},       {"accuracy", &curve.accuracy},
          {"of", &curve.of}};
}

double bytes_of_all_ranks(const RunRecord& row) {
  double bytes = 0;
  for (const RankRecord& rank : row.ranks) bytes += rank.bytes_sent_per_step;
  return bytes;
}

std::optional<LossCurve> training_curve(const RunRecord& row) {
  if (row.loss.empty() || row.samples_per_s <= 0) return {};
  LossCurve curve;
  curve.of = static_cast<std::int64_t>(row.loss.size());
  for (const std::size_t i : kept(row.loss.size())) {
    const auto steps = static_cast<std::int64_t>(i) + 1;
    const auto samples = static_cast<double>(steps * row.plan.train.global_batch);
    add_point(curve, row, steps, samples / row.samples_per_s, row.loss[i]);
  }
  return curve;
}

std::optional<LossCurve> evaluation_curve(const RunRecord& row) {
  const std::vector<Evaluation>& all = held_out_curve(row);
  if (all.empty()) return {};
  LossCurve curve;
  curve.of = static_cast<std::int64_t>(all.size());
  for (const std::size_t i : kept(all.size())) {
    add_point(curve, row, all[i].step, all[i].training_s, all[i].loss);
    curve.accuracy.push_back(all[i].accuracy);
  }
  return curve;
}

}  // namespace ringside::runner
