#include "experiments/config/config.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <sstream>
#include <string_view>

#include "core/base/error.h"
#include "core/base/nearest.h"
#include "core/base/utf8.h"
#include "core/models/presets.h"
#include "experiments/config/cluster_file.h"
#include "experiments/config/toml.h"
#include "experiments/registry/registry.h"

namespace ringside {
namespace {

using Path = std::vector<std::string>;

/// Whether the path is model.preset. A preset sets all keys of [model], so it is applied before the
/// other keys of the file.
bool is_preset(const Path& path) { return path == Path{"model", "preset"}; }

std::string join(Path::const_iterator begin, Path::const_iterator end) {
  return fmt::format("{}", fmt::join(begin, end, "."));
}

/// Puts values into the configuration. Every error begins with `place`, such as
/// "quickstart.toml:12" or "--set train.steps=x".
class Binder {
 public:
  explicit Binder(ExperimentConfig& config) : config_(config) {}

  /// Sets the value at `path`. Relative paths of files are taken relative to `folder`.
  void assign(const Path& path, const TomlData& value, const std::string& place,
              const std::filesystem::path& folder) {
    place_ = place;
    if (path[0] == "name" && path.size() == 1) return set(&config_.name, value, "name");
    if (path[0] == "scheme") return assign_option(path, value);
    if (is_preset(path)) return assign_preset(value);
    bool known = false;
    for (const auto& [table, fields] : tables()) {
      if (path[0] != table) continue;
      known = true;
      if (path.size() == 1)
        throw Error("{}: '{}' is a table; write [{}] with its keys below, or {}.KEY = VALUE",
                    place_, table, table, table);
      assign_field(fields, path, 1, value);
    }
    if (!known) refuse_top(path[0], value.is_table() || path.size() > 1);
    const auto make_absolute = [&](std::string& file) {
      if (file.empty()) return;
      file = std::filesystem::absolute(folder / file).lexically_normal().string();
      if (!is_utf8(file))
        throw Error(
            "{}: the path {} is not UTF-8, as paths in plans must be; rename it, or link to it",
            place, utf8_text(file));
    };
    if (path == Path{"data", "path"})
      for (std::string& file : config_.data.path) make_absolute(file);
    if (path == Path{"device", "cluster"}) make_absolute(config_.device.cluster);
    if (path == Path{"train", "initial_weights"}) make_absolute(config_.train.initial_weights);
  }

  /// Checks the name of an empty table: the table sets nothing, but its name must be known.
  void check_table(const Path& path, const std::string& place) {
    place_ = place;
    bool known = path[0] == "scheme";
    for (const auto& [table, unused] : tables()) known |= path[0] == table;
    if (!known) refuse_top(path[0], true);
    if (path.size() == 1) return;
    if (path[0] != "scheme" || path.size() > 2)
      throw Error("{}: unknown table '{}'", place_, join(path.begin(), path.end()));
    find_row(path[1]);
  }

 private:
  std::vector<std::pair<std::string_view, Fields>> tables() {
    return {{"model", fields_of(config_.model)},    {"data", fields_of(config_.data)},
            {"train", fields_of(config_.train)},    {"optimizer", fields_of(config_.optimizer)},
            {"device", fields_of(config_.device)},  {"sim", fields_of(config_.sim)},
            {"compare", fields_of(config_.compare)}};
  }

  void assign_preset(const TomlData& value) {
    std::string name;
    set(&name, value, "model.preset");
    try {
      config_.model = find_preset(name).config;
    } catch (const Error& error) {
      throw Error("{}: {}", place_, error.what());
    }
  }

  void set(const FieldValue& out, const TomlData& value, const std::string& key) {
    value.put(out, place_, key);
  }

  /// `depth` says how many names at the beginning of `path` are the table's name.
  void assign_field(const Fields& fields, const Path& path, std::size_t depth,
                    const TomlData& value) {
    std::vector<std::string> known;
    for (const Field& field : fields) {
      if (path.size() == depth + 1 && path[depth] == field.name)
        return set(field.value, value, join(path.begin(), path.end()));
      known.emplace_back(field.name);
    }
    if (path[0] == "model") known.emplace_back("preset");
    refuse_key(path, depth, known);
  }

  void assign_option(const Path& path, const TomlData& value) {
    if (path.size() < 3)
      throw Error("{}: write a scheme's option in [scheme.NAME], or as scheme.NAME.KEY", place_);
    const SchemeRow& row = find_row(path[1]);
    Options& options = config_.scheme_options.try_emplace(path[1], row.defaults).first->second;
    assign_field(options.fields(), path, 2, value);
  }

  const SchemeRow& find_row(const std::string& name) {
    try {
      return find_scheme(name);
    } catch (const Error& error) {
      throw Error("{}: {}", place_, error.what());
    }
  }

  /// `depth` says how many names at the beginning of `path` belong to a table that exists.
  [[noreturn]] void refuse_key(const Path& path, std::size_t depth,
                               const std::vector<std::string>& known) {
    const auto middle = path.begin() + static_cast<std::ptrdiff_t>(depth);
    throw Error("{}: unknown key '{}' in [{}]; did you mean '{}'?", place_,
                join(middle, path.end()), join(path.begin(), middle), nearest(path[depth], known));
  }

  [[noreturn]] void refuse_top(const std::string& name, bool table) {
    std::vector<std::string> known = {"scheme"};
    if (!table) known.emplace_back("name");
    for (const auto& [one, unused] : tables()) known.emplace_back(one);
    throw Error("{}: unknown {} '{}'; did you mean '{}'?", place_, table ? "table" : "key", name,
                nearest(name, known));
  }

  ExperimentConfig& config_;
  std::string place_;
};

void assign_file(Binder& binder, const std::filesystem::path& file) {
  if (!std::filesystem::exists(file))
    throw Error("{}: no such file; name an experiment file such as experiments/quickstart.toml",
                file.string());
  if (!std::filesystem::is_regular_file(file))
    throw Error("{}: not a file; name an experiment file (*.toml)", file.string());
  const auto values = read_toml(file);
  for (const TomlValue& one : values)
    if (is_preset(one.path)) binder.assign(one.path, one.data, one.place, file.parent_path());
  for (const TomlValue& one : values) {
    if (is_preset(one.path)) continue;
    if (one.data.is_table())
      binder.check_table(one.path, one.place);
    else
      binder.assign(one.path, one.data, one.place, file.parent_path());
  }
}

void assign_override(Binder& binder, const std::string& override_text) {
  std::string place = "--set " + override_text;
  std::replace(place.begin(), place.end(), '\n', ' ');
  const auto equals = override_text.find('=');
  if (equals == std::string::npos || equals == 0)
    throw Error("{}: write table.key=value, as in --set train.steps=100", place);
  Path path;
  std::istringstream names(override_text.substr(0, equals));
  for (std::string name; std::getline(names, name, '.');) path.push_back(name);
  binder.assign(path, toml_data(override_text.substr(equals + 1), place), place,
                std::filesystem::current_path());
}

}  // namespace

Fields fields_of(CompareConfig& config) {
  return {{"schemes", &config.schemes, "the schemes to compare (see `ringside list`)"},
          {"worlds", &config.worlds, "numbers of workers; every scheme runs at each of them"},
          {"repeats", &config.repeats,
           "how often each run is made; figures are medians and their intervals"},
          {"attempts", &config.attempts,
           "most attempts at a run that other work on this machine disturbs"},
          {"all_cores", &config.all_cores,
           "cpu: also run `single` with the threads of all ranks of the largest world"}};
}

ExperimentConfig read_experiment(const std::filesystem::path& file,
                                 const std::vector<std::string>& overrides) {
  ExperimentConfig config;
  config.name = file.stem().string();
  Binder binder(config);
  assign_file(binder, file);
  for (const std::string& override_text : overrides) assign_override(binder, override_text);
  if (config.device.kind != "sim") return config;
  if (config.device.cluster.empty())
    throw Error(
        "{}: device.kind = \"sim\" needs device.cluster, a file such as "
        "experiments/clusters/dgx-a100.toml",
        file.string());
  config.cluster = read_cluster(config.device.cluster);
  return config;
}

}  // namespace ringside
