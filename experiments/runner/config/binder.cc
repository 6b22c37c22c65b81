#include "experiments/runner/config/binder.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <sstream>
#include <utility>

#include "core/base/error.h"
#include "core/base/nearest.h"
#include "core/base/utf8.h"
#include "core/models/presets.h"
#include "core/plan/pipeline_plan.h"

namespace ringside::runner {
namespace {

using Path = std::vector<std::string>;

std::string join(Path::const_iterator begin, Path::const_iterator end) {
  return fmt::format("{}", fmt::join(begin, end, "."));
}

}  // namespace

bool is_model_source(const Path& path) {
  return path.size() == 2 && path[0] == "model" && (path[1] == "preset" || path[1] == "from");
}

std::string key_of(const Path& path) { return join(path.begin(), path.end()); }

Path path_of(const std::string& key) {
  Path path;
  std::istringstream names(key);
  for (std::string name; std::getline(names, name, '.');) path.push_back(name);
  return path;
}

template <class Function>
decltype(auto) Binder::at_place(const Function& function) {
  try {
    return function();
  } catch (const Error& error) {
    throw Error("{}: {}", place_, error.what());
  }
}

void Binder::assign(const std::vector<Assignment>& together) {
  std::map<std::string, std::string> places;
  assign_sources(together);
  for (const Assignment& one : together) {
    if (!is_model_source(one.path)) assign_one(one);
    places[key_of(one.path)] = one.place;
  }
  settle_batches(places);
  hold_model(places);
}

void Binder::assign_sources(const std::vector<Assignment>& together) {
  const Assignment* first = nullptr;
  for (const Assignment& one : together) {
    if (!is_model_source(one.path)) continue;
    if (first && first->path != one.path)
      throw Error("{}: {} is given beside {} ({}); leave one out", one.place, key_of(one.path),
                  key_of(first->path), first->place);
    first = &one;
    place_ = one.place;
    if (one.path[1] == "preset")
      assign_preset(one.data);
    else
      assign_from(one);
  }
}

void Binder::assign_one(const Assignment& one) {
  const Path& path = one.path;
  place_ = one.place;
  if (path[0] == "name" && path.size() == 1) return one.data.put(&config_.name, place_, "name");
  if (path[0] == "scheme") return assign_option(one);
  bool known = false;
  for (const auto& [table, fields] : tables_of(config_)) {
    if (path[0] != table) continue;
    known = true;
    if (path.size() == 1)
      throw Error("{}: '{}' is a table; write [{}] with its keys below, or {}.KEY = VALUE", place_,
                  table, table, table);
    assign_field(fields, path, 1, one.data);
  }
  if (!known) refuse_top(path[0], one.data.is_table() || path.size() > 1);
  make_paths_absolute(one);
}

void Binder::make_absolute(std::string& file, const std::filesystem::path& folder) const {
  if (file.empty()) return;
  file = std::filesystem::absolute(folder / file).lexically_normal().string();
  if (!is_utf8(file))
    throw Error("{}: the path {} is not UTF-8, as paths in plans must be; rename it, or link to it",
                place_, utf8_text(file));
}

void Binder::make_paths_absolute(const Assignment& one) {
  if (one.path == Path{"data", "path"})
    for (std::string& file : config_.data.path) make_absolute(file, one.folder);
  if (one.path == Path{"plugins", "files"})
    for (std::string& file : config_.plugins.files) make_absolute(file, one.folder);
  if (one.path == Path{"device", "cluster"}) make_absolute(config_.device.cluster, one.folder);
  if (one.path == Path{"checkpoint", "path"}) make_absolute(config_.checkpoint.path, one.folder);
  if (one.path == Path{"pipeline", "schedule"} && is_schedule_file(config_.pipeline.schedule))
    make_absolute(config_.pipeline.schedule, one.folder);
  if (one.path == Path{"train", "initial_weights"})
    make_absolute(config_.train.initial_weights, one.folder);
}

/// A global batch is given for all ranks together or for each rank; the one that is given last
/// replaces the other.
void Binder::settle_batches(const std::map<std::string, std::string>& places) {
  const auto whole = places.find("train.global_batch"), each = places.find("train.batch_per_rank");
  if (whole == places.end()) return;
  if (each != places.end() && config_.train.batch_per_rank != 0)
    throw Error(
        "{}: train.batch_per_rank = {} decides the global batch, and {} sets "
        "train.global_batch; leave one of them out",
        each->second, config_.train.batch_per_rank, whole->second);
  config_.train.batch_per_rank = 0;
}

void Binder::check_table(const Path& path, const std::string& place) {
  place_ = place;
  bool known = path[0] == "scheme";
  for (const auto& [table, unused] : tables_of(config_)) known |= path[0] == table;
  if (!known) refuse_top(path[0], true);
  if (path.size() == 1) return;
  if (path[0] != "scheme" || path.size() > 2)
    throw Error("{}: unknown table '{}'", place_, key_of(path));
  at_place([&] { scheme_to_run(path[1]); });
}

void Binder::assign_preset(const TomlData& value) {
  std::string name;
  value.put(&name, place_, "model.preset");
  config_.model = at_place([&] { return find_preset(name).config; });
  config_.stated_model.reset();
}

/// Keys that the file does not decide keep the values that were given before.
void Binder::assign_from(const Assignment& one) {
  std::string name;
  one.data.put(&name, place_, "model.from");
  std::filesystem::path file = std::filesystem::absolute(one.folder / name).lexically_normal();
  if (std::filesystem::is_directory(file)) file /= "config.json";
  config_.stated_model = at_place([&] { return read_hugging_face_config(file, "model.from"); });
  const ModelConfig before = std::exchange(config_.model, config_.stated_model->model);
  ModelConfig& model = config_.model;
  model.context = before.context;
  if (model.positions > 0) model.context = std::min(model.context, model.positions);
  model.target_context = before.target_context;
  model.dropout = before.dropout;
  model.masked = before.masked;
  model.classes = before.classes;
}

void Binder::hold_model(const std::map<std::string, std::string>& places) {
  if (!config_.stated_model) return;
  for (const Disagreement& one : disagreements(*config_.stated_model, config_.model)) {
    const auto place = places.find("model." + one.key);
    throw Error("{}: {}; leave model.{} out, or model.from",
                place == places.end() ? place_ : place->second, one.text, one.key);
  }
}

/// `depth` says how many names at the beginning of `path` are the table's name.
void Binder::assign_field(const Fields& fields, const Path& path, std::size_t depth,
                          const TomlData& value) {
  // Some keys have several parts: pipeline.profile.f.
  const std::string key = join(path.begin() + static_cast<std::ptrdiff_t>(depth), path.end());
  std::vector<std::string> known;
  for (const Field& field : fields) {
    if (key == field.name) return value.put(field, place_, key_of(path));
    known.emplace_back(field.name);
  }
  // In a file an inline table stands for its members, as in profile = { f = 1, b = 1 }.
  if (const auto members = value.members(); !members.empty()) {
    for (const auto& [name, member] : members) {
      Path inner = path;
      inner.push_back(name);
      assign_field(fields, inner, depth, member);
    }
    return;
  }
  if (path[0] == "model") known.insert(known.end(), {"preset", "from"});
  if (path[0] == "compare") known.insert(known.end(), {"case", "sweep"});
  refuse_key(path, depth, known);
}

/// Paths that were given before are absolute already.
void Binder::assign_option(const Assignment& one) {
  const Path& path = one.path;
  if (path.size() < 3)
    throw Error("{}: write a scheme's option in [scheme.NAME], or as scheme.NAME.KEY", place_);
  const SchemeInfo& row = at_place([&]() -> const SchemeInfo& { return scheme_to_run(path[1]); });
  Options& options = config_.scheme_options.try_emplace(path[1], row.defaults).first->second;
  assign_field(options.fields(), path, 2, one.data);
  if (!row.paths) return;
  for (std::string* file : row.paths(options)) make_absolute(*file, one.folder);
}

/// `depth` says how many names at the beginning of `path` belong to a table that exists.
void Binder::refuse_key(const Path& path, std::size_t depth,
                        const std::vector<std::string>& known) {
  const auto middle = path.begin() + static_cast<std::ptrdiff_t>(depth);
  throw Error("{}: unknown key '{}' in [{}]; did you mean '{}'?", place_, join(middle, path.end()),
              join(path.begin(), middle), nearest(path[depth], known));
}

void Binder::refuse_top(const std::string& name, bool table) {
  std::vector<std::string> known = {"scheme"};
  if (!table) known.emplace_back("name");
  for (const auto& [one, unused] : tables_of(config_)) known.emplace_back(one);
  throw Error("{}: unknown {} '{}'; did you mean '{}'?", place_, table ? "table" : "key", name,
              nearest(name, known));
}

}  // namespace ringside::runner
