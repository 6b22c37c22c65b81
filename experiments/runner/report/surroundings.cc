#include "experiments/runner/report/surroundings.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "experiments/runner/results/data_state.h"

namespace ringside::runner {
namespace {

using nlohmann::json;

constexpr const char* nothing = "nothing";

/// The text of a value as people write it: strings without quotation marks.
std::string text_of(const json& value) {
  if (value.is_null()) return nothing;
  return value.is_string() ? value.get<std::string>() : value.dump();
}

json parsed(const std::string& text) {
  json out = json::parse(text, nullptr, false);
  return out.is_object() ? out : json::object();
}

/// Every value of `in` that is no object, under its keys joined by dots.
void flatten(const json& in, const std::string& under, std::map<std::string, json>& out) {
  for (const auto& [key, value] : in.items()) {
    const std::string name = under.empty() ? key : under + "." + key;
    if (value.is_object())
      flatten(value, name, out);
    else
      out[name] = value;
  }
}

std::map<std::string, json> flat(const json& in) {
  std::map<std::string, json> out;
  flatten(in, "", out);
  return out;
}

/// The elements of `of` that `other` does not have.
json only_in(const json& of, const json& other) {
  json out = json::array();
  for (const json& element : of)
    if (std::find(other.begin(), other.end(), element) == other.end()) out.push_back(element);
  return out;
}

template <class Add>
void compare(const std::map<std::string, json>& a, const std::map<std::string, json>& b, Add add) {
  const auto in = [](const std::map<std::string, json>& values, const std::string& key) {
    const auto found = values.find(key);
    return found == values.end() ? json() : found->second;
  };
  std::set<std::string> keys;
  for (const auto* values : {&a, &b})
    for (const auto& one : *values) keys.insert(one.first);
  for (const std::string& key : keys) {
    const json of_a = in(a, key), of_b = in(b, key);
    if (of_a == of_b) continue;
    if (of_a.is_array() && of_b.is_array() && key == "libraries")
      add(key, text_of(only_in(of_a, of_b)), text_of(only_in(of_b, of_a)));
    else
      add(key, text_of(of_a), text_of(of_b));
  }
}

/// The plan's keys as experiment files name them.
std::map<std::string, json> configuration_of(const RunPlan& plan) {
  json out = to_json(plan);
  for (const char* follows :
       {"run",    "label",    "family",        "set",     "swept",   "purpose", "line",
        "place",  "sum_tree", "unknown_order", "promise", "world",   "defines", "servers",
        "repeat", "quick",    "seeded",        "ranks",   "history", "lost",    "save"})
    out.erase(follows);
  const json options = out["options"];
  out.erase("options");
  out["scheme"] = {{plan.scheme, options}};
  return flat(out);
}

/// The first run of every case that was asked for.
std::map<std::pair<std::string, int>, const RunPlan*> plans_of(const std::vector<RunRecord>& rows) {
  std::map<std::pair<std::string, int>, const RunPlan*> out;
  for (const RunRecord& row : rows)
    if (row.plan.purpose != Purpose::reference)
      out.emplace(std::pair(row.plan.listing.label, row.plan.world), &row.plan);
  return out;
}

/// The sizes of the files of data that the comparison read.
std::map<std::string, json> files_of(const SavedResults& results) {
  std::map<std::string, json> out;
  const json plan = parsed(results.plan);
  if (!plan.contains("data")) return out;
  try {
    for (const DataState::File& file : data_state_from_json(plan.at("data")).files)
      out["file " + file.path] = fmt::format("{} bytes", file.bytes);
  } catch (const json::exception&) {
    return {};  // written by a program with another list of files; the keys of the plans are
                // compared
  }
  return out;
}

}  // namespace

Fields fields_of(Difference& difference) {
  return {{"what", &difference.what},
          {"a", &difference.a},
          {"b", &difference.b},
          {"cases", &difference.cases}};
}

std::string case_name(const std::string& label, int world) {
  return fmt::format("{} at world {}", label, world);
}

std::vector<Difference> environment_differences(const std::string& a, const std::string& b) {
  json of_a = parsed(a), of_b = parsed(b);
  for (json* environment : {&of_a, &of_b})
    for (const char* own : {"time", "earlier"}) environment->erase(own);
  std::vector<Difference> out;
  compare(flat(of_a), flat(of_b), [&](const std::string& key, std::string in_a, std::string in_b) {
    out.push_back({key, std::move(in_a), std::move(in_b), {}});
  });
  return out;
}

std::vector<Difference> configuration_differences(const SavedResults& a, const SavedResults& b) {
  std::vector<Difference> out;
  std::size_t common = 0;
  const auto of_b = plans_of(b.rows);
  for (const auto& [name, plan] : plans_of(a.rows)) {
    const auto other = of_b.find(name);
    if (other == of_b.end()) continue;
    ++common;
    const std::string of_case = case_name(name.first, name.second);
    compare(configuration_of(*plan), configuration_of(*other->second),
            [&](const std::string& key, const std::string& in_a, const std::string& in_b) {
              const auto known = std::find_if(out.begin(), out.end(), [&](const Difference& one) {
                return one.what == key && one.a == in_a && one.b == in_b;
              });
              if (known != out.end())
                known->cases.push_back(of_case);
              else
                out.push_back({key, in_a, in_b, {of_case}});
            });
  }
  for (Difference& one : out)
    if (one.cases.size() == common) one.cases.clear();
  if (!a.plan.empty() && !b.plan.empty())
    compare(files_of(a), files_of(b),
            [&](const std::string& key, std::string in_a, std::string in_b) {
              out.push_back({key, std::move(in_a), std::move(in_b), {}});
            });
  return out;
}

}  // namespace ringside::runner
