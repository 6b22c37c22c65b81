#include "experiments/results/data_state.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>
#include <set>

#include "core/base/error.h"
#include "core/base/json_fields.h"
#include "core/base/utf8.h"
#include "core/data/text.h"
#include "core/interchange/safetensors.h"
#include "experiments/registry/registry.h"

namespace ringside {

namespace {

using Files = std::vector<std::filesystem::path>;

/// What a run reads: names of its data set and its weights.
std::string source_of(const DataConfig& data) {
  return utf8_text(fmt::format("{}: {}", data.kind, fmt::join(data.path, ", ")));
}
std::string source_of_weights(const RunPlan& plan) {
  return "weights: " + plan.train.initial_weights;
}

void add(DataState& state, const std::string& source, const Files& files) {
  for (const auto& file : files) {
    const auto modified = std::filesystem::last_write_time(file).time_since_epoch();
    state.files.push_back({utf8_text(file.string()), source,
                           static_cast<std::int64_t>(std::filesystem::file_size(file)),
                           std::chrono::duration_cast<std::chrono::nanoseconds>(modified).count()});
  }
}

bool knows(const DataState& state, const std::string& source) {
  return std::any_of(state.files.begin(), state.files.end(),
                     [&](const DataState::File& file) { return file.source == source; });
}

}  // namespace

DataState data_state(const RunPlan& plan) { return data_state(std::vector<RunPlan>{plan}); }

DataState data_state(const std::vector<RunPlan>& plans) {
  DataState state;
  std::set<std::string> looked_at;
  for (const RunPlan& plan : plans) {
    if (const std::string source = source_of(plan.data); looked_at.insert(source).second)
      add(state, source, find_dataset(plan.data.kind).files(plan.data));
    const std::string& weights = plan.train.initial_weights;
    if (weights.empty() || !looked_at.insert(source_of_weights(plan)).second) continue;
    const auto files = safetensors_files(weights);
    add(state, source_of_weights(plan), {files.begin(), files.end()});
  }
  return state;
}

DataState part_of(const DataState& all, const RunPlan& plan) {
  const std::string data = source_of(plan.data), weights = source_of_weights(plan);
  DataState out;
  for (const DataState::File& file : all.files)
    if (file.source == data || file.source == weights) out.files.push_back(file);
  return out;
}

void check_apart(const DataConfig& config, const std::filesystem::path& results) {
  namespace fs = std::filesystem;
  if (!find_dataset(config.kind).any_file) return;
  const fs::path written = fs::weakly_canonical(fs::absolute(results));
  for (const std::string& name : config.path) {
    if (!fs::is_directory(name)) continue;
    const fs::path below = written.lexically_relative(fs::canonical(name));
    if (below.empty() || *below.begin() == "..") continue;
    if (std::any_of(below.begin(), below.end(),
                    [](const fs::path& part) { return part != "." && is_left_out(part); }))
      continue;
    throw Error(
        "results folder {} lies below data.path {}: runs would read what they write; choose "
        "another with --results",
        results.string(), name);
  }
}

std::string first_change(const DataState& before, const DataState& after) {
  const auto missing = [](const DataState& from, const DataState& in) -> std::string {
    for (const auto& file : from.files)
      if (knows(in, file.source) &&
          std::find(in.files.begin(), in.files.end(), file) == in.files.end())
        return file.path;
    return {};
  };
  const std::string changed = missing(before, after);
  return changed.empty() ? missing(after, before) : changed;
}

Fields fields_of(DataState::File& file) {
  return {{"path", &file.path},
          {"source", &file.source},
          {"bytes", &file.bytes},
          {"modified_ns", &file.modified_ns}};
}

nlohmann::ordered_json to_json(const DataState& state) {
  nlohmann::ordered_json out = nlohmann::ordered_json::array();
  for (const DataState::File& file : state.files) out.push_back(to_json(file));
  return out;
}

DataState data_state_from_json(const nlohmann::json& in) {
  DataState state;
  for (const auto& file : in) state.files.push_back(read_json<DataState::File>(file));
  return state;
}

}  // namespace ringside
