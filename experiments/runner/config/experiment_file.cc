// The reader of experiment files and of the keys that the command line adds.
#include <algorithm>

#include "core/base/error.h"
#include "experiments/runner/config/binder.h"
#include "experiments/runner/config/cases.h"
#include "experiments/runner/registry/plugins.h"

namespace ringside::runner {
namespace {

using Path = std::vector<std::string>;

using Names = std::initializer_list<std::string_view>;

bool begins_with(const Path& path, Names prefix) {
  return path.size() >= prefix.size() && std::equal(prefix.begin(), prefix.end(), path.begin());
}
bool is(const Path& path, Names names) {
  return path.size() == names.size() && begins_with(path, names);
}

/// Sorts the values of a file or of the command line: keys of the experiment, cases, sweep.
class Collector {
 public:
  explicit Collector(Experiment& experiment)
      : experiment_(experiment), binder_(experiment.common) {}

  void add_file(const std::filesystem::path& file) {
    if (!std::filesystem::exists(file))
      throw Error("{}: no such file; name an experiment file such as experiments/quickstart.toml",
                  file.string());
    if (!std::filesystem::is_regular_file(file))
      throw Error("{}: not a file; name an experiment file (*.toml)", file.string());
    std::vector<Assignment> together;
    for (const TomlValue& one : read_toml(file)) {
      if (begins_with(one.path, {"compare", "case"}))
        add_cases(one, file.parent_path());
      else if (begins_with(one.path, {"compare", "sweep"}))
        add_swept({one.path, one.data, one.place, file.parent_path()});
      else if (one.data.is_table() && !is_model_source(one.path))
        binder_.check_table(one.path, one.place);
      else
        together.push_back({one.path, one.data, one.place, file.parent_path()});
    }
    assign(together);
  }

  void add_overrides(const std::vector<std::string>& overrides) {
    std::vector<Assignment> together;
    for (const std::string& text : overrides) {
      std::string place = "--set " + text;
      std::replace(place.begin(), place.end(), '\n', ' ');
      Assignment one = parse_assignment(text, place);
      if (one.path[0] == "plugins")
        throw Error("{}: plug-ins are loaded before settings are read; write --plugin FILE", place);
      if (begins_with(one.path, {"compare", "case"}))
        throw Error("{}: --set cannot add a case; write --case 'SCHEME: KEY=VALUE'", place);
      if (begins_with(one.path, {"compare", "sweep"}))
        add_swept(without_quotes(std::move(one)));
      else
        together.push_back(std::move(one));
    }
    assign(together);
  }

  bool schemes_are_set() const { return schemes_are_set_; }

 private:
  /// A shell's user may write compare.sweep."train.seed" or compare.sweep.train.seed.
  static Assignment without_quotes(Assignment one) {
    for (std::string& name : one.path) std::erase(name, '"');
    return one;
  }

  /// Replaces worlds = "2:8", those of a run whose workers come and go, by the two keys that it
  /// stands for.
  static std::vector<Assignment> with_range_of_worlds(const std::vector<Assignment>& together) {
    std::vector<Assignment> out;
    for (const Assignment& one : together) {
      std::string text;
      const bool is_text = is(one.path, {"compare", "worlds"}) && one.data.put(&text);
      const auto range = is_text ? world_range(text) : std::nullopt;
      if (!range) {
        out.push_back(one);
        continue;
      }
      for (const std::string& key : {fmt::format("compare.worlds=[{}]", range->second),
                                     fmt::format("faults.least_world={}", range->first)})
        out.push_back(parse_assignment(key, one.place));
    }
    return out;
  }

  void assign(const std::vector<Assignment>& given) {
    const std::vector<Assignment> together = with_range_of_worlds(given);
    for (const Assignment& one : together) {
      schemes_are_set_ |= is(one.path, {"compare", "schemes"});
      if (is(one.path, {"compare", "worlds"}) && !place_of_swept_worlds_.empty())
        throw Error("{}: compare.worlds is given beside world in compare.sweep ({}); leave one out",
                    one.place, place_of_swept_worlds_);
    }
    place_of_swept_worlds_.clear();
    binder_.assign(together);
  }

  void add_cases(const TomlValue& list, const std::filesystem::path& folder) {
    if (!is(list.path, {"compare", "case"}) || list.elements.empty())
      throw Error("{}: write each case as a table [[compare.case]], with two brackets on each side",
                  list.place);
    for (const TomlElement& table : list.elements)
      experiment_.cases.push_back(case_of_table(table, folder));
  }

  void add_swept(Assignment list) {
    if (is(list.path, {"compare", "sweep"}) && list.data.is_table())
      return;  // [compare.sweep] without keys
    if (is(list.path, {"compare", "sweep"}))
      throw Error(
          "{}: compare.sweep is a table; write [compare.sweep] with \"KEY\" = [VALUES] "
          "below",
          list.place);
    list.path.erase(list.path.begin(), list.path.begin() + 2);
    if (is(list.path, {"world"})) place_of_swept_worlds_ = list.place;
    add_to_sweep(experiment_, std::move(list));
  }

  Experiment& experiment_;
  Binder binder_;
  bool schemes_are_set_ = false;
  /// The place where the file, or else an override, lists worlds in compare.sweep; empty: nowhere.
  std::string place_of_swept_worlds_;
};

/// The plug-ins that the file names. They are loaded before anything of the file is understood.
std::vector<std::string> plugins_of(const std::filesystem::path& file) {
  PluginsConfig plugins;
  if (std::filesystem::is_regular_file(file))
    for (const TomlValue& one : read_toml(file))
      if (is(one.path, {"plugins", "files"}))
        one.data.put(&plugins.files, one.place, "plugins.files");
  for (std::string& one : plugins.files) one = (file.parent_path() / one).string();
  return plugins.files;
}

/// Whether a case or the sweep sets one of the keys that decide about the cluster.
bool changes_cluster(const Experiment& experiment) {
  const auto of_device = [](const Assignment& one) { return one.path[0] == "device"; };
  return std::any_of(experiment.cases.begin(), experiment.cases.end(),
                     [&](const CaseConfig& one) {
                       return std::any_of(one.set.begin(), one.set.end(), of_device);
                     }) ||
         std::any_of(experiment.sweep.begin(), experiment.sweep.end(),
                     [&](const SweptKey& swept) { return of_device(swept.values.front()); });
}

}  // namespace

Experiment experiment_of(const std::string& name, const std::vector<std::string>& overrides) {
  Experiment experiment;
  experiment.common.name = name;
  Collector(experiment).add_overrides(overrides);
  read_cluster_of(experiment.common, "--set");
  return experiment;
}

Experiment read_experiment(const std::filesystem::path& file,
                           const std::vector<std::string>& overrides,
                           const std::vector<std::string>& case_texts) {
  load_plugins(plugins_of(file));
  Experiment experiment;
  ExperimentConfig& common = experiment.common;
  common.name = file.stem().string();
  Collector collector(experiment);
  collector.add_file(file);
  collector.add_overrides(overrides);
  for (const std::string& text : case_texts) experiment.cases.push_back(case_of_text(text));
  check_cases(experiment);
  if (!experiment.cases.empty() && !collector.schemes_are_set()) common.compare.schemes.clear();
  // If the cases name clusters of their own, the file need not name one.
  if (!common.device.cluster.empty() || !changes_cluster(experiment))
    read_cluster_of(common, file.string());
  return experiment;
}

}  // namespace ringside::runner
