#include "experiments/runner/report/environment_history.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "experiments/runner/report/surroundings.h"

namespace ringside::runner {
namespace {

using nlohmann::json;

constexpr const char* earlier = "earlier";
constexpr std::size_t longest_shown_value = 60;

json key_of(const RunRecord& row) { return {{"run", row.plan.id}, {"attempt", row.attempt}}; }

/// The part of an environment by which environments are told apart.
json distinct_part(json environment) {
  if (!environment.is_object()) return nullptr;
  environment.erase("time");
  environment.erase(earlier);
  if (environment.contains("hosts"))
    for (json& host : environment["hosts"]) host["environment"].erase("time");
  return environment;
}

bool lists(const json& names, const json& row) {
  return std::find(names.begin(), names.end(), row) != names.end();
}

/// The environment in which a record was made, according to the earlier environment.json.
json environment_of(const json& row, const json& before) {
  if (!before.is_object()) return nullptr;
  for (const json& other : before.value(earlier, json::array()))
    if (lists(other.at("rows"), row)) return other.at("environment");
  json own = before;
  own.erase(earlier);
  return own;
}

std::string shortened(const std::string& value) {
  return value.size() <= longest_shown_value ? value : value.substr(0, longest_shown_value) + "...";
}

}  // namespace

nlohmann::ordered_json with_earlier(nlohmann::ordered_json now, const json& before,
                                    const std::vector<RunRecord>& rows) {
  const json here = distinct_part(json(now));
  json others = json::array();
  for (const RunRecord& row : rows) {
    const json name = key_of(row);
    const json its = environment_of(name, before);
    if (distinct_part(its) == here) continue;
    auto known = std::find_if(others.begin(), others.end(), [&](const json& one) {
      return distinct_part(one.at("environment")) == distinct_part(its);
    });
    if (known == others.end()) {
      others.push_back({{"rows", json::array()}, {"environment", its}});
      known = std::prev(others.end());
    }
    known->at("rows").push_back(name);
  }
  if (!others.empty()) now[earlier] = std::move(others);
  return now;
}

std::vector<std::string> texts_of_earlier(const json& environment) {
  std::vector<std::string> out;
  if (!environment.is_object()) return out;
  for (const json& other : environment.value(earlier, json::array())) {
    const std::size_t count = other.at("rows").size();
    std::vector<std::string> changes;
    for (const Difference& one : environment_differences(
             distinct_part(other.at("environment")).dump(), distinct_part(environment).dump()))
      changes.push_back(
          fmt::format("{} was {}, now {}", one.what, shortened(one.a), shortened(one.b)));
    const std::string what = other.at("environment").is_null()
                                 ? "an environment that is not known"
                                 : fmt::format("another environment: {}", fmt::join(changes, "; "));
    out.push_back(fmt::format("{} row{} {} made in {}", count, count == 1 ? "" : "s",
                              count == 1 ? "was" : "were", what));
  }
  return out;
}

}  // namespace ringside::runner
