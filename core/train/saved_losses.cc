#include "core/train/saved_losses.h"

#include <cmath>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "core/base/json_fields.h"

namespace ringside {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

/// JSON has no numbers that are not finite.
ordered_json json_of(double value) {
  if (std::isfinite(value)) return value;
  return std::isnan(value) ? "nan" : value > 0 ? "inf" : "-inf";
}
double value_in(const json& value) {
  if (!value.is_string()) return value.is_null() ? std::nan("") : value.get<double>();
  const double infinite = std::numeric_limits<double>::infinity();
  return value == "inf" ? infinite : value == "-inf" ? -infinite : std::nan("");
}
std::vector<double> values_in(const json& values) {
  std::vector<double> out;
  for (const json& one : values) out.push_back(value_in(one));
  return out;
}

/// What the ranks of a run have of every step, moved from so many ranks to another number of them:
/// `each_from` values of a step for each rank, and `each` for this one, worker `worker`.
template <class Value>
std::vector<Value> own_part(const std::vector<std::vector<Value>>& ranks, std::size_t each_from,
                            std::size_t each, std::size_t worker) {
  std::vector<Value> out;
  const std::size_t steps = ranks.empty() ? 0 : ranks[0].size() / each_from;
  for (std::size_t s = 0; s < steps; ++s)
    for (std::size_t m = worker * each; m < (worker + 1) * each; ++m)
      out.push_back(ranks[m / each_from][s * each_from + m % each_from]);
  return out;
}

/// The losses of steps that had other micro-batches: their sum in the order of ranks as that of the
/// first of `each` micro-batches, or, on a rank that has not the first, zeros.
std::vector<double> sums_of_steps(const std::vector<std::vector<double>>& ranks,
                                  std::size_t each_from, std::size_t each, bool first) {
  std::vector<double> out;
  const std::size_t steps = ranks.empty() ? 0 : ranks[0].size() / each_from;
  for (std::size_t s = 0; s < steps; ++s) {
    out.resize(out.size() + each);
    for (const std::vector<double>& rank : ranks)
      for (std::size_t m = 0; first && m < each_from; ++m) out[s * each] += rank[s * each_from + m];
  }
  return out;
}
std::vector<LossValue> summed(const std::vector<std::vector<LossValue>>& ranks, std::int64_t each,
                              bool first) {
  std::vector<LossValue> out(static_cast<std::size_t>(each));
  for (const std::vector<LossValue>& rank : ranks)
    for (const LossValue& share : rank)
      if (first) out[0] += share;
  return out;
}

/// Of the same scheme at the same world, whose workers may have done steps of their own. Returns
/// whether they have as many micro-batches as then.
bool restore_own(const Manifest& manifest, const RunPlan& plan, std::size_t worker,
                 RankRecord& record) {
  if (manifest.run.at("train").at("accumulation") != plan.train.accumulation) return false;
  const json own = manifest.scalars.at("losses").at(worker);
  record.losses = values_in(own.at("losses"));
  record.loss_places = own.value("places", std::vector<std::int64_t>());
  for (const json& one : own.value("evaluations", json::array()))
    record.evaluations.push_back(read_json<RankRecord::Evaluation>(one));
  return true;
}

/// Of another scheme or world.
void restore_parts(const Manifest& manifest, const RunPlan& plan, std::size_t worker,
                   RankRecord& record) {
  const json losses = manifest.scalars.at("losses");
  const auto each_from = manifest.run.at("train").at("accumulation").get<std::int64_t>();
  const std::int64_t each = plan.train.accumulation;
  const bool same_micro_batches =
      static_cast<std::int64_t>(losses.size()) * each_from == plan.world * plan.train.accumulation;
  std::vector<std::vector<double>> values;
  std::map<std::int64_t, std::vector<std::vector<LossValue>>> shares;
  std::map<std::int64_t, double> seconds;
  for (const json& rank : losses) {
    if (rank.contains("assignments")) return;  // each worker had steps of its own
    values.push_back(values_in(rank.at("losses")));
    for (const json& one : rank.value("evaluations", json::array())) {
      const auto evaluation = read_json<RankRecord::Evaluation>(one);
      shares[evaluation.step].push_back(evaluation.shares);
      seconds[evaluation.step] = evaluation.seconds;
    }
  }
  if (!same_micro_batches) {
    // Their sums are known, and stand where the first micro-batch would.
    record.losses = sums_of_steps(values, static_cast<std::size_t>(each_from),
                                  static_cast<std::size_t>(each), worker == 0);
    for (const auto& [step, ranks] : shares)
      record.evaluations.push_back({step, 0, summed(ranks, each, worker == 0), seconds[step]});
    return;
  }
  record.losses =
      own_part(values, static_cast<std::size_t>(each_from), static_cast<std::size_t>(each), worker);
  for (const auto& [step, ranks] : shares)
    record.evaluations.push_back({step, 0,
                                  own_part(ranks, static_cast<std::size_t>(each_from),
                                           static_cast<std::size_t>(each), worker),
                                  seconds[step]});
}

}  // namespace

ordered_json saved_losses(const RankRecord& record, int worker,
                          std::optional<std::int64_t> assignments) {
  ordered_json out = {{"worker", worker}, {"losses", ordered_json::array()}};
  for (const double loss : record.losses) out["losses"].push_back(json_of(loss));
  if (assignments) out["assignments"] = *assignments;
  if (!record.loss_places.empty()) out["places"] = record.loss_places;
  for (const RankRecord::Evaluation& one : record.evaluations)
    out["evaluations"].push_back(to_json(one));
  return out;
}

std::int64_t restore_losses(const Manifest& manifest, const RunPlan& plan, int worker,
                            bool same_algorithm, RankRecord& record) {
  const auto own = static_cast<std::size_t>(worker);
  if (!same_algorithm || !restore_own(manifest, plan, own, record))
    restore_parts(manifest, plan, own, record);
  if (!same_algorithm) return manifest.step;
  return manifest.scalars.at("losses").at(own).value("assignments", manifest.step);
}

}  // namespace ringside
