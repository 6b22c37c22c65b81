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

/// A name that keys of experiment files, tests and file names can have.
void check_name(std::string_view name) {
  const auto allowed = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_';
  };
  if (name.empty() || name[0] < 'a' || name[0] > 'z' ||
      !std::all_of(name.begin(), name.end(), allowed))
    throw Error(
        "a row is called '{}'; names of plug-ins have small letters, digits and '_', and begin "
        "with a letter",
        name);
}

/// Adds rows of one kind of all plug-ins.
template <class Row, class Add>
void add_rows(std::vector<LoadedPlugin>& plugins, std::vector<Row> PluginRows::*rows,
              const Add& add) {
  for (LoadedPlugin& plugin : plugins) try {
      for (Row& row : plugin.rows.*rows) {
        check_name(row.name);
        add(std::move(row));
      }
    } catch (const Error& error) {
      throw Error("--plugin {}: {}", plugin.file.file, error.what());
    }
}

const PluginFile* loaded(const std::string& file) {
  const auto& all = plugins_of_process();
  const auto found =
      std::find_if(all.begin(), all.end(), [&](const PluginFile& one) { return one.file == file; });
  return found == all.end() ? nullptr : &*found;
}

}  // namespace

void load_plugins(const std::vector<std::string>& files) {
  std::vector<LoadedPlugin> plugins;
  for (const std::string& given : files)
    if (!loaded(std::filesystem::absolute(given).lexically_normal().string()))
      plugins.push_back(load_plugin(given));
  // What rows of other kinds are made of comes first: schemes have options of all compressors, and
  // adding a scheme looks at the list of those.
  add_rows(plugins, &PluginRows::compressors, add_compressor);
  add_rows(plugins, &PluginRows::models, add_model);
  add_rows(plugins, &PluginRows::optimizers, add_optimizer);
  add_rows(plugins, &PluginRows::datasets, add_dataset);
  add_rows(plugins, &PluginRows::schemes, add_scheme);
  for (LoadedPlugin& plugin : plugins) plugins_of_process().push_back(std::move(plugin.file));
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
      throw MissingPlugin("scheme '{}' is that of a plug-in: give --plugin {}", scheme,
                          fmt::join(files, " --plugin "));
    }
  };
}

RunPlan read_plan(const nlohmann::json& plan) {
  std::vector<PluginFile> wanted;
  std::vector<std::string> files;
  if (const auto named = plan.find("plugins"); named != plan.end())
    for (const nlohmann::json& one : *named) {
      wanted.push_back(read_json<PluginFile>(one, Absent::refused));
      files.push_back(wanted.back().file);
    }
  load_plugins(files);
  for (const PluginFile& one : wanted)
    if (const PluginFile* there = loaded(one.file); there->hash != one.hash)
      throw Error(
          "plug-in {} has other content here (hash {}) than where the run was planned (hash {}); "
          "copy one file to all hosts, and leave it alone while runs go on",
          one.file, there->hash, one.hash);
  return run_plan_from_json(plan, default_options);
}

}  // namespace ringside::runner
