// The changes in a diff other than of speed: memory, bytes, losses, proofs, failures.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "experiments/runner/report/diff_lines.h"
#include "experiments/runner/report/two_samples.h"

namespace ringside::runner {
namespace {

/// Adds the changes of one row, other than of its speed.
class Values {
 public:
  Values(const ComparedLine& a, const ComparedLine& b, const DiffRule& rule,
         std::vector<ValueDiff>& out)
      : a_(a), b_(b), rule_(rule), out_(out) {}

  template <class Figure, class Text>
  void add(const std::string& what, bool more_is_worse, Figure figure, Text text) {
    const std::vector<double> a = figures(a_, figure), b = figures(b_, figure);
    if (a.empty() || b.empty()) return;
    const auto [low_a, high_a] = std::minmax_element(a.begin(), a.end());
    const auto [low_b, high_b] = std::minmax_element(b.begin(), b.end());
    if (*low_a <= *high_b && *low_b <= *high_a) return;
    // Figures that depend on the order of messages differ between any two runs.
    const bool varies = a_.summary.plan.promise == Promise::replayed;
    if (varies && smallest_p(a.size(), b.size()) > largest_p(rule_.confidence)) return;
    const auto range = [&](double low, double high) {
      const std::string first = text(low), last = text(high);
      return first == last ? first : first + "-" + last;
    };
    ValueDiff& one = begin(what);
    one.a = range(*low_a, *high_a);
    one.b = range(*low_b, *high_b);
    if (const double before = median(a); before != 0) one.change = median(b) / before - 1;
    one.regression = more_is_worse && one.change.value_or(HUGE_VAL) >= rule_.threshold;
  }

  void add_proof() {
    const Proof a = a_.summary.verdict.proof, b = b_.summary.verdict.proof;
    if (a == b || a_.finished.empty() || b_.finished.empty()) return;
    ValueDiff& one = begin("proof");
    one.a = name_of(a);
    one.b = name_of(b);
    const bool was_shown = a <= Proof::to_rounding;
    one.regression = b == Proof::different || (b == Proof::to_rounding && a < Proof::to_rounding) ||
                     (b == Proof::not_shown && was_shown);
  }

  void add_failures() {
    const CaseSummary &a = a_.summary, &b = b_.summary;
    const auto share = [](const CaseSummary& one) {
      return static_cast<double>(one.runs.failed) / one.runs.repeats;
    };
    if (share(a) == share(b)) return;
    const auto text = [](const CaseSummary& one) {
      return fmt::format("{} of {}", one.runs.finished(), one.runs.repeats);
    };
    ValueDiff& one = begin("finished repeats");
    one.a = text(a);
    one.b = text(b);
    one.regression = share(b) > share(a);
  }

 private:
  template <class Figure>
  static std::vector<double> figures(const ComparedLine& line, Figure figure) {
    std::vector<double> out;
    for (const RunRecord* row : line.finished)
      if (const std::optional<double> value = figure(*row)) out.push_back(*value);
    return out;
  }
  ValueDiff& begin(const std::string& what) {
    ValueDiff& one = out_.emplace_back();
    one.label = a_.summary.label();
    one.world = a_.summary.plan.world;
    one.what = what;
    return one;
  }

  const ComparedLine& a_;
  const ComparedLine& b_;
  const DiffRule& rule_;
  std::vector<ValueDiff>& out_;
};

}  // namespace

void add_values(const ComparedLine& a, const ComparedLine& b, const DiffRule& rule,
                std::vector<ValueDiff>& out) {
  using Figure = std::optional<double>;
  const auto loss = [](double value) { return fmt::format("{:.9g}", value); };
  const auto in_mb = [](double bytes) { return fmt::format("{:.6f} MB", bytes / 1e6); };
  Values values(a, b, rule, out);
  values.add_failures();
  values.add_proof();
  values.add(
      "peak memory", true, [](const RunRecord& row) -> Figure { return memory_peak(row); }, in_mb);
  values.add(
      "bytes sent", true,
      [](const RunRecord& row) {
        if (!bytes_known(row)) return Figure();
        double most = 0;
        for (const RankRecord& rank : row.ranks) most = std::max(most, rank.bytes_sent_per_step);
        return Figure(most);
      },
      in_mb);
  values.add(
      "training loss", false,
      [](const RunRecord& row) { return row.loss.empty() ? Figure() : Figure(row.loss.back()); },
      loss);
  values.add(
      "held-out loss", false,
      [](const RunRecord& row) {
        const auto& curve = held_out_curve(row);
        return curve.empty() ? Figure() : Figure(curve.back().loss);
      },
      loss);
}

Fields fields_of(ValueDiff& diff) {
  return {{"label", &diff.label},
          {"world", &diff.world},
          {"what", &diff.what},
          {"a", &diff.a},
          {"b", &diff.b},
          {"change", &diff.change},
          {"regression", &diff.regression}};
}

}  // namespace ringside::runner
