#include "experiments/runner/report/common_plan.h"

#include <nlohmann/json.hpp>
#include <optional>

namespace ringside::runner {
namespace {

using nlohmann::ordered_json;

void keep_equal_members(ordered_json& of, const ordered_json& other) {
  for (auto member = of.begin(); member != of.end();) {
    const auto there = other.find(member.key());
    const bool objects = there != other.end() && member->is_object() && there->is_object();
    if (objects) keep_equal_members(*member, *there);
    const bool kept = objects ? !member->empty() : there != other.end() && *member == *there;
    member = kept ? std::next(member) : of.erase(member);
  }
}

ordered_json shown(const RunPlan& plan) {
  ordered_json out = to_json(plan);
  for (const char* left_out : {"ranks", "history", "line", "place", "run", "published"})
    out.erase(left_out);
  if (out["cluster"].is_object()) out["cluster"].erase("timed");
  return out;
}

}  // namespace

ordered_json common_plan(const std::vector<RunRecord>& rows) {
  std::optional<ordered_json> common;
  for (const RunRecord& row : rows) {
    if (row.plan.purpose != Purpose::asked || row.plan.repeat > 0) continue;
    const ordered_json plan = shown(row.plan);
    if (common)
      keep_equal_members(*common, plan);
    else
      common = plan;
  }
  return common.value_or(ordered_json::object());
}

}  // namespace ringside::runner
