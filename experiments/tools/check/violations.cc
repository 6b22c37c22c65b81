#include "experiments/tools/check/violations.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <utility>

#include "core/base/counted.h"
#include "core/plan/mesh.h"

namespace ringside::tools::check {
namespace {

/// "1 replica", "2 replicas".
std::string count_of(std::size_t number, const std::string& what) {
  return counted(static_cast<std::int64_t>(number), what);
}

}  // namespace

void add(Violations& violations, Violations more) {
  violations.insert(violations.end(), std::make_move_iterator(more.begin()),
                    std::make_move_iterator(more.end()));
}

Violations wrong_parameters(const RunRecord& row, const RunRecord& definition) {
  const auto &own = row.parameter_hashes, &defined = definition.parameter_hashes;
  if (own.size() != defined.size())
    return {fmt::format("the run reports {}, but the definition has {}",
                        count_of(own.size(), "replica"), defined.size())};
  Violations out;
  for (std::size_t r = 0; r < own.size(); ++r)
    if (own[r] != defined[r])
      out.push_back(fmt::format("the parameters of replica {} differ from the definition's", r));
  for (const std::int64_t rank : row.at_end.differing)
    out.push_back(fmt::format("rank {} ends with other parameters than rank 0", rank));
  if (row.plan.promise != Promise::replayed && row.at_end.shown_by != data_world(row.plan))
    out.push_back(fmt::format("{} of {} show their parameters", row.at_end.shown_by,
                              count_of(static_cast<std::size_t>(data_world(row.plan)), "worker")));
  return out;
}

Violations wrong_losses(const RunRecord& row, const RunRecord& definition, double allowed) {
  if (row.loss.size() != definition.loss.size())
    return {fmt::format("the run has the losses of {}, but the definition those of {}",
                        count_of(row.loss.size(), "step"), definition.loss.size())};
  Violations out;
  for (std::size_t s = 0; s < row.loss.size(); ++s) {
    const double own = row.loss[s], defined = definition.loss[s];
    if (!(std::abs(own - defined) <= allowed * std::abs(defined)))
      out.push_back(fmt::format("the loss of step {} is {}, but the definition's is {}", s + 1, own,
                                defined));
  }
  return out;
}

Violations wrong_evaluations(const RunRecord& row, const RunRecord& definition) {
  if (row.evaluations.size() != definition.evaluations.size())
    return {fmt::format("the run has {}, but the definition has {}",
                        count_of(row.evaluations.size(), "evaluation"),
                        definition.evaluations.size())};
  Violations out;
  for (std::size_t e = 0; e < row.evaluations.size(); ++e) {
    const Evaluation &own = row.evaluations[e], &defined = definition.evaluations[e];
    if (own.step != defined.step)
      out.push_back(
          fmt::format("evaluation {} is after step {}, but the definition's after step {}", e + 1,
                      own.step, defined.step));
    else if (own.loss != defined.loss || own.first_term != defined.first_term ||
             own.accuracy != defined.accuracy)
      out.push_back(fmt::format(
          "the evaluation after step {} differs: its loss is {} and its accuracy {}, but "
          "the definition's are {} and {}",
          own.step, own.loss, own.accuracy, defined.loss, defined.accuracy));
  }
  return out;
}

double busiest(const RunRecord& row) {
  double most = 0;
  for (const RankRecord& rank : row.ranks) most = std::max(most, rank.bytes_sent_per_step);
  return most;
}

Violations missing_traffic(const RunRecord& row) {
  if (busiest(row) >= 0.999 * row.bytes_minimum_per_step) return {};
  return {
      fmt::format("the busiest rank sends {} bytes in a step, which is below the least possible {}",
                  busiest(row), row.bytes_minimum_per_step)};
}

Violations lost_parameters(const RunRecord& row) {
  std::vector<std::pair<std::int64_t, std::int64_t>> kept;
  for (const RankRecord& rank : row.ranks)
    kept.insert(kept.end(), rank.kept.begin(), rank.kept.end());
  if (kept.empty()) return {};
  kept.emplace_back(row.parameters, 0);
  std::sort(kept.begin(), kept.end());
  std::int64_t end = 0;
  for (const auto& [begin, count] : kept) {
    if (begin > end) return {fmt::format("no rank keeps the parameters from {} to {}", end, begin)};
    end = std::max(end, begin + count);
  }
  return {};
}

Violations differences(const RunRecord& row, const RunRecord& definition) {
  Violations out = wrong_parameters(row, definition);
  add(out, wrong_losses(row, definition));
  add(out, wrong_evaluations(row, definition));
  return out;
}

Violations violations(const RunRecord& row, const RunRecord& definition) {
  Violations out = differences(row, definition);
  add(out, missing_traffic(row));
  add(out, lost_parameters(row));
  return out;
}

}  // namespace ringside::tools::check
