#include "experiments/tools/advise/considered.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace ringside::tools::advise {
namespace {

/// The cost to minimise: the time of a sample, or the hours of devices where a deadline is met.
double cost(const Question& question, const Considered& one) {
  if (question.deadline_h == 0) return 1 / one.samples_per_s;
  if (hours(question, one) <= question.deadline_h) return device_hours_per_million(one);
  // Candidates that miss the deadline come after all others, by speed.
  return std::sqrt(std::numeric_limits<double>::max()) / one.samples_per_s;
}

}  // namespace

double as_fast(const Question& question) { return question.on_cpus() ? 0.15 : 0.02; }

std::vector<Considered> ranked(const Question& question, const std::vector<Considered>& all) {
  std::vector<Considered> out;
  for (const Considered& one : all)
    if (one.outcome == Outcome::simulated) out.push_back(one);
  if (out.empty()) return out;
  const auto cost_of = [&](const Considered& one) { return cost(question, one); };
  std::stable_sort(out.begin(), out.end(), [&](const Considered& a, const Considered& b) {
    return cost_of(a) < cost_of(b);
  });
  const double enough = cost_of(out.front()) * (1 + as_fast(question));
  auto advised = out.begin();
  for (auto one = out.begin(); one != out.end() && cost_of(*one) <= enough; ++one)
    if (simpler(one->candidate, advised->candidate)) advised = one;
  std::rotate(out.begin(), advised, advised + 1);
  return out;
}

double device_hours_per_million(const Considered& one) {
  return 1e6 / one.samples_per_s / 3600 * static_cast<double>(one.candidate.world);
}

double hours(const Question& question, const Considered& one) {
  return question.samples / one.samples_per_s / 3600;
}

}  // namespace ringside::tools::advise
