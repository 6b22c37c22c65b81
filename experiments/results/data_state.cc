#include "experiments/results/data_state.h"

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>

#include "core/base/error.h"
#include "core/base/json_fields.h"
#include "core/base/utf8.h"
#include "core/data/text.h"
#include "core/interchange/safetensors.h"
#include "experiments/registry/registry.h"

namespace ringside {

DataState data_state(const RunPlan& plan) {
  auto files = find_dataset(plan.data.kind).files(plan.data);
  if (const std::string& weights = plan.train.initial_weights; !weights.empty())
    for (const std::string& file : safetensors_files(weights)) files.emplace_back(file);
  DataState state;
  for (const auto& file : files) {
    const auto modified = std::filesystem::last_write_time(file).time_since_epoch();
    state.files.push_back({utf8_text(file.string()),
                           static_cast<std::int64_t>(std::filesystem::file_size(file)),
                           std::chrono::duration_cast<std::chrono::nanoseconds>(modified).count()});
  }
  return state;
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
      if (std::find(in.files.begin(), in.files.end(), file) == in.files.end()) return file.path;
    return {};
  };
  const std::string changed = missing(before, after);
  return changed.empty() ? missing(after, before) : changed;
}

Fields fields_of(DataState::File& file) {
  return {{"path", &file.path}, {"bytes", &file.bytes}, {"modified_ns", &file.modified_ns}};
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
