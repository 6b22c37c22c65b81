#include "experiments/runner/report/diff.h"

#include <algorithm>
#include <tuple>

#include "core/base/error.h"
#include "experiments/runner/report/diff_lines.h"

namespace ringside::runner {
namespace {

std::vector<std::string> names_missing(const Lines& of, const Lines& in) {
  std::vector<std::string> out;
  for (const auto& [name, line] : of)
    if (std::none_of(in.begin(), in.end(),
                     [&wanted = name](const auto& other) { return other.first == wanted; }))
      out.push_back(case_name(line.summary.label(), line.summary.plan.world));
  return out;
}

void sort_worst_first(Diff& diff) {
  const auto worse_speed = [](const SpeedDiff& x, const SpeedDiff& y) {
    return std::tuple(x.outcome != SpeedChange::slower, x.change) <
           std::tuple(y.outcome != SpeedChange::slower, y.change);
  };
  std::stable_sort(diff.speeds.begin(), diff.speeds.end(), worse_speed);
  std::stable_partition(diff.values.begin(), diff.values.end(),
                        [](const ValueDiff& one) { return one.regression; });
}

}  // namespace

Diff make_diff(const SavedResults& a, const SavedResults& b, const DiffRule& rule) {
  Diff out;
  out.a = a.folder.string();
  out.b = b.folder.string();
  out.rule = rule;
  for (const SavedResults* results : {&a, &b})
    out.complaints.insert(out.complaints.end(), results->complaints.begin(),
                          results->complaints.end());
  const Lines lines_a = lines_of(a), lines_b = lines_of(b);
  out.only_a = names_missing(lines_a, lines_b);
  out.only_b = names_missing(lines_b, lines_a);
  for (const auto& [name, line] : lines_a)
    for (const auto& [other_name, other] : lines_b) {
      if (name != other_name) continue;
      out.speeds.push_back(compare_speed(line, lines_a, other, lines_b, rule));
      add_values(line, other, rule, out.values);
    }
  if (out.speeds.empty()) {
    std::string causes;
    for (const std::string& complaint : out.complaints) causes += "; " + complaint;
    throw Error("no row of {} (rows: {}) stands in {} (rows: {}) too{}", out.a, lines_a.size(),
                out.b, lines_b.size(), causes);
  }
  decide(out.speeds, rule);
  sort_worst_first(out);
  out.environment = environment_differences(a.environment, b.environment);
  out.configuration = configuration_differences(a, b);
  return out;
}

bool regressed(const Diff& diff) {
  return std::any_of(diff.speeds.begin(), diff.speeds.end(),
                     [](const SpeedDiff& one) { return one.outcome == SpeedChange::slower; }) ||
         std::any_of(diff.values.begin(), diff.values.end(),
                     [](const ValueDiff& one) { return one.regression; });
}

Fields fields_of(Diff& diff) {
  return {{"a", &diff.a},
          {"b", &diff.b},
          {"threshold", &diff.rule.threshold},
          {"confidence", &diff.rule.confidence},
          {"complaints", &diff.complaints},
          {"environment", Structs(&diff.environment)},
          {"configuration", Structs(&diff.configuration)},
          {"speeds", Structs(&diff.speeds)},
          {"values", Structs(&diff.values)},
          {"only_a", &diff.only_a},
          {"only_b", &diff.only_b}};
}

}  // namespace ringside::runner
