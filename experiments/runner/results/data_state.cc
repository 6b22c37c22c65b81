#include "experiments/runner/results/data_state.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>
#include <set>

#include "core/base/error.h"
#include "core/base/json_fields.h"
#include "core/base/utf8.h"
#include "core/data/text_files.h"
#include "core/interchange/safetensors.h"
#include "experiments/runner/registry/registry.h"
#include "experiments/runner/results/content_digest.h"

namespace ringside::runner {

namespace {

using Files = std::vector<std::filesystem::path>;

/// The source of a run's data, by name: the data set or the weights.
std::string source_of(const DataConfig& data) {
  return utf8_text(fmt::format("{}: {}", data.kind, fmt::join(data.path, ", ")));
}
std::string source_of_weights(const RunPlan& plan) {
  return "weights: " + plan.train.initial_weights;
}
/// The source of the user's own code in another program, by name.
std::string source_of_code(const ProgramFile& file) { return "code: " + file.path; }

/// Adds files of a source. Returns the number of their bytes.
std::int64_t add(DataState& state, const std::string& source, const Files& files, Digests digests) {
  std::int64_t bytes = 0;
  for (const auto& path : files) {
    const auto modified = std::filesystem::last_write_time(path).time_since_epoch();
    DataState::File file{.path = utf8_text(path.string()), .source = source};
    file.bytes = static_cast<std::int64_t>(std::filesystem::file_size(path));
    file.modified_ns = std::chrono::duration_cast<std::chrono::nanoseconds>(modified).count();
    if (digests == Digests::taken) file.digest = content_digest(path);
    bytes += file.bytes;
    state.files.push_back(std::move(file));
  }
  return bytes;
}

void add_data(DataState& state, const std::string& source, const DataFiles& files,
              Digests digests) {
  DataState::Source out{.source = source, .note = files.note, .left_out = files.left_out};
  for (LeftOut& one : out.left_out) one.first = utf8_text(one.first);
  out.bytes = add(state, source, files.training, digests);
  out.held_out_bytes = add(state, source, files.held_out, digests);
  out.bytes += out.held_out_bytes;
  out.held_out_files = static_cast<std::int64_t>(files.held_out.size());
  out.files = static_cast<std::int64_t>(files.training.size()) + out.held_out_files;
  if (out.files > 0) state.sources.push_back(std::move(out));
}

bool same_stamp(const DataState::File& a, const DataState::File& b) {
  return a.path == b.path && a.source == b.source && a.bytes == b.bytes &&
         a.modified_ns == b.modified_ns;
}

bool same_content(const DataState::File& a, const DataState::File& b) {
  if (a.digest.empty() || b.digest.empty()) return same_stamp(a, b);
  return a.path == b.path && a.source == b.source && a.bytes == b.bytes && a.digest == b.digest;
}

std::string counted(std::int64_t files, std::int64_t bytes) {
  return fmt::format("{} file{}, {}", files, files == 1 ? "" : "s", text_of_bytes(bytes));
}

bool knows(const DataState& state, const std::string& source) {
  return std::any_of(state.files.begin(), state.files.end(),
                     [&](const DataState::File& file) { return file.source == source; });
}

using Same = bool (*)(const DataState::File&, const DataState::File&);

/// The path of a file of `from` for which `in` has none that is the same.
std::string first_missing(const DataState& from, const DataState& in, Same same) {
  for (const auto& file : from.files)
    if (knows(in, file.source) &&
        std::none_of(in.files.begin(), in.files.end(),
                     [&](const DataState::File& other) { return same(file, other); }))
      return file.path;
  return {};
}

std::string first_not_the_same(const DataState& before, const DataState& after, Same same) {
  const std::string changed = first_missing(before, after, same);
  return changed.empty() ? first_missing(after, before, same) : changed;
}

}  // namespace

DataState data_state(const RunPlan& plan) { return data_state(std::vector<RunPlan>{plan}); }

DataState data_state(const std::vector<RunPlan>& plans, Digests digests) {
  DataState state;
  std::set<std::string> looked_at;
  for (const RunPlan& plan : plans) {
    if (const std::string source = source_of(plan.data); looked_at.insert(source).second)
      add_data(state, source, find_dataset(plan.data.kind).files(plan.data), digests);
    if (plan.program)
      for (const ProgramFile& code : plan.program->files)
        if (looked_at.insert(source_of_code(code)).second)
          add(state, source_of_code(code), {code.path}, digests);
    const std::string& weights = plan.train.initial_weights;
    if (weights.empty() || !looked_at.insert(source_of_weights(plan)).second) continue;
    const auto files = safetensors_files(weights);
    add(state, source_of_weights(plan), {files.begin(), files.end()}, digests);
  }
  return state;
}

DataState part_of(const DataState& all, const RunPlan& plan) {
  std::set<std::string> sources = {source_of(plan.data), source_of_weights(plan)};
  if (plan.program)
    for (const ProgramFile& code : plan.program->files) sources.insert(source_of_code(code));
  DataState out;
  for (const DataState::File& file : all.files)
    if (sources.contains(file.source)) out.files.push_back(file);
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
  return first_not_the_same(before, after, same_stamp);
}

std::string first_other_content(const DataState& before, const DataState& after) {
  return first_not_the_same(before, after, same_content);
}

std::vector<std::string> lines_about(const DataState& state) {
  std::vector<std::string> lines;
  for (const DataState::Source& one : state.sources) {
    if (one.files == 1 && one.note.empty() && one.left_out.empty()) continue;
    std::string line = fmt::format("Data: {} ({})", counted(one.files, one.bytes), one.source);
    if (one.held_out_files > 0)
      line += fmt::format("; {}: {}", one.note.empty() ? "held out" : one.note,
                          counted(one.held_out_files, one.held_out_bytes));
    else if (!one.note.empty())
      line += "; " + one.note;
    if (!one.left_out.empty()) line += "; " + text_of(one.left_out);
    lines.push_back(std::move(line));
  }
  return lines;
}

Fields fields_of(DataState::File& file) {
  return {{"path", &file.path},
          {"source", &file.source},
          {"bytes", &file.bytes},
          {"modified_ns", &file.modified_ns},
          {"digest", &file.digest}};
}

Fields fields_of(DataState::Source& source) {
  return {{"source", &source.source},
          {"files", &source.files},
          {"bytes", &source.bytes},
          {"held_out_files", &source.held_out_files},
          {"held_out_bytes", &source.held_out_bytes},
          {"note", &source.note},
          {"left_out", Structs(&source.left_out)}};
}

nlohmann::ordered_json files_to_json(const DataState& state) {
  nlohmann::ordered_json out = nlohmann::ordered_json::array();
  for (const DataState::File& file : state.files) out.push_back(to_json(file));
  return out;
}

nlohmann::ordered_json sources_to_json(const DataState& state) {
  nlohmann::ordered_json out = nlohmann::ordered_json::array();
  for (const DataState::Source& source : state.sources) out.push_back(to_json(source));
  return out;
}

DataState data_state_from_json(const nlohmann::json& in) {
  DataState state;
  for (const auto& file : in)
    state.files.push_back(read_json<DataState::File>(file, Absent::keeps_default));
  return state;
}

}  // namespace ringside::runner
