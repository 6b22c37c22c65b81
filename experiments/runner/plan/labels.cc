#include "experiments/runner/plan/labels.h"

#include <algorithm>
#include <filesystem>

#include "core/plan/pipeline_plan.h"
#include "experiments/runner/config/binder.h"

namespace ringside::runner {
namespace {

std::string last_part(const std::string& key) { return key.substr(key.rfind('.') + 1); }

/// Whether the setting is an option of a scheme that is a path.
bool is_option_path(const Setting& setting) {
  const std::vector<std::string> path = path_of(setting.key);
  if (path.size() != 3 || path[0] != "scheme") return false;
  const SchemeInfo& row = find_scheme(path[1]);
  if (!row.paths) return false;
  Options options = row.defaults;
  for (const Field& field : options.fields()) {
    auto* const text = std::get_if<std::string*>(&field.value);
    if (!text || field.name != path[2]) continue;
    **text = setting.value;
    const std::vector<std::string*> paths = row.paths(options);
    return std::find(paths.begin(), paths.end(), *text) != paths.end();
  }
  return false;
}

std::string value_in_label(const Setting& setting) {
  const std::string& key = setting.key;
  const std::filesystem::path path(setting.value);
  if (key == "model.from") {
    const bool folder = path.has_filename() && path.filename() != "config.json";
    return (folder ? path : path.parent_path()).filename().string();
  }
  if (is_option_path(setting)) return path.filename().string();
  const bool file = key == "device.cluster" || key == "data.path" ||
                    key == "train.initial_weights" ||
                    (key == "pipeline.schedule" && is_schedule_file(setting.value));
  return file ? path.stem().string() : setting.value;
}

std::string file_name(const std::string& label) {
  std::string out;
  for (const char c : label) {
    const bool kept = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                      c == '_' || c == '.' || c == '-';
    if (kept)
      out += c;
    else if (!out.empty() && out.back() != '-')
      out += '-';
  }
  constexpr std::size_t longest = 100;
  out.resize(std::min(out.size(), longest));
  while (!out.empty() && out.back() == '-') out.pop_back();
  while (!out.empty() && (out.front() == '.' || out.front() == '-')) out.erase(out.begin());
  return out.empty() ? "case" : out;
}

}  // namespace

std::vector<Setting> settings_of(const std::vector<Assignment>& assignments) {
  std::vector<Setting> out;
  for (const Assignment& one : assignments) {
    Setting setting{key_of(one.path), {}};
    if (!one.data.put(&setting.value)) setting.value = one.data.text();
    std::erase_if(out, [&](const Setting& earlier) { return earlier.key == setting.key; });
    out.push_back(std::move(setting));
  }
  return out;
}

std::string label_with(const std::string& name, const std::vector<Setting>& settings) {
  if (settings.empty()) return name;
  std::string text;
  for (const Setting& setting : settings) {
    const std::string shortest = last_part(setting.key);
    const bool shared = std::count_if(settings.begin(), settings.end(), [&](const Setting& other) {
                          return last_part(other.key) == shortest;
                        }) > 1;
    text += fmt::format("{}{}={}", text.empty() ? "" : ", ", shared ? setting.key : shortest,
                        value_in_label(setting));
  }
  return fmt::format("{} ({})", name, text);
}

std::string FileNames::of_label(const std::string& label) {
  const auto [known, is_new] = known_.try_emplace(label);
  if (!is_new) return known->second;
  const std::string name = file_name(label);
  std::string unique = name;
  for (int number = 2; !taken_.insert(unique).second; ++number)
    unique = fmt::format("{}.{}", name, number);
  return known->second = unique;
}

}  // namespace ringside::runner
