#include "experiments/runner/registry/plugins.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <utility>

#include "core/base/error.h"
#include "core/base/json_fields.h"
#include "core/compress/compressor.h"
#include "core/models/models.h"
#include "core/optim/optimizers.h"
#include "core/plugin/load_plugin.h"
#include "experiments/runner/registry/registry.h"

namespace ringside::runner {
namespace {

/// Like the lists of rows, it is complete before anybody reads it.
std::vector<PluginFile>& plugins_of_process() {
  static std::vector<PluginFile> plugins;
  return plugins;
}

/// Later rows may be made with options of earlier ones, such as those of compressors, which close
/// the list of these. So rows that others build on come first.
void add_rows(PluginRows rows) {
  for (CompressorInfo& row : rows.compressors) add_compressor(std::move(row));
  for (ModelInfo& row : rows.models) add_model(std::move(row));
  for (OptimizerInfo& row : rows.optimizers) add_optimizer(std::move(row));
  for (DatasetInfo& row : rows.datasets) add_dataset(std::move(row));
  for (SchemeInfo& row : rows.schemes) add_scheme(std::move(row));
}

const PluginFile* loaded(const std::string& file) {
  const auto& all = plugins_of_process();
  const auto found =
      std::find_if(all.begin(), all.end(), [&](const PluginFile& one) { return one.file == file; });
  return found == all.end() ? nullptr : &*found;
}

}  // namespace

void load_plugins(const std::vector<std::string>& files) {
  for (const std::string& given : files) {
    if (loaded(std::filesystem::absolute(given).lexically_normal().string())) continue;
    LoadedPlugin plugin = load_plugin(given);
    try {
      add_rows(std::move(plugin.rows));
    } catch (const Error& error) {
      throw Error("--plugin {}: {}", plugin.file.file, error.what());
    }
    plugins_of_process().push_back(std::move(plugin.file));
  }
}

const std::vector<PluginFile>& loaded_plugins() { return plugins_of_process(); }

DefaultOptions options_in(const nlohmann::json& kept) {
  std::vector<std::string> files;
  if (const auto named = kept.find("plugins"); named != kept.end())
    for (const nlohmann::json& one : *named) files.push_back(one.value("file", ""));
  return [files](const std::string& scheme) {
    try {
      return default_options(scheme);
    } catch (const Error& error) {
      if (files.empty()) throw;
      throw Error("{}; the run was made with --plugin {}", error.what(),
                  fmt::join(files, " --plugin "));
    }
  };
}

RunPlan read_plan(const nlohmann::json& plan) {
  if (const auto named = plan.find("plugins"); named != plan.end())
    for (const nlohmann::json& one : *named) {
      const auto wanted = read_json<PluginFile>(one, Absent::refused);
      load_plugins({wanted.file});
      const PluginFile* there = loaded(wanted.file);
      if (there->hash != wanted.hash)
        throw Error(
            "plug-in {} has other content here (hash {}) than where the run was planned (hash {}); "
            "copy one file to all hosts, and leave it alone while runs go on",
            wanted.file, there->hash, wanted.hash);
    }
  return run_plan_from_json(plan, default_options);
}

}  // namespace ringside::runner
