#include "experiments/runner/config/cases.h"

#include <algorithm>
#include <charconv>
#include <set>

#include "core/base/error.h"
#include "core/base/nearest.h"
#include "core/base/utf8.h"
#include "core/plan/device_traits.h"
#include "experiments/runner/config/binder.h"
#include "experiments/runner/config/cluster_file.h"

namespace ringside::runner {
namespace {

using Path = std::vector<std::string>;

/// The beginning of the places of cases that the command line adds.
constexpr std::string_view case_option = "--case";

/// Makes a path of one whose names may have dots: { "scheme.ps.servers" = 1 } and
/// { scheme.ps.servers = 1 } are the same.
Path split(const Path& path) { return path_of(key_of(path)); }

/// Throws Error for a key that holds for the whole comparison. `within` names the place that would
/// set it.
void refuse_common(const Assignment& one, std::string_view within) {
  if (one.path.empty())
    throw Error("{}: {} has a value without a key; write \"train.micro_batch\" = 2, or another key",
                one.place, within);
  if (one.path[0] == "name" || one.path[0] == "compare")
    throw Error("{}: {} cannot set {}, which holds for the whole comparison", one.place, within,
                key_of(one.path));
}

/// Puts one key of a case into it. `world` is another name for `worlds`.
void put_field(CaseConfig& out, const Assignment& one) {
  const std::string key = key_of(one.path);
  std::vector<std::string> known = {"world", "set"};
  for (const Field& field : fields_of(out)) {
    known.emplace_back(field.name);
    if (key != field.name && (key != "world" || field.name != "worlds")) continue;
    if (field.name == "worlds" && !out.worlds.empty())
      throw Error("{}: {} is given beside another list of worlds; leave one out", one.place, key);
    return one.data.put(field, one.place, key);
  }
  throw Error(
      "{}: unknown key '{}' in [[compare.case]]; did you mean '{}'? Keys of the file stand "
      "in set = {{ \"KEY\" = VALUE }}",
      one.place, key, nearest(key, known));
}

/// Checks a case without its settings.
void check_case(const CaseConfig& one) {
  if (one.scheme.empty())
    throw Error(
        "{}: a case needs a scheme; write scheme = \"ddp\", or another (see `ringside "
        "list`)",
        one.place);
  try {
    scheme_to_run(one.scheme);
  } catch (const Error& error) {
    throw Error("{}: {}", one.place, error.what());
  }
  const auto unfit = [](unsigned char c) { return c < ' ' || c == 0x7f || c == '|'; };
  constexpr std::size_t longest_label = 80;
  if (std::any_of(one.label.begin(), one.label.end(), unfit) ||
      characters_of(one.label) > longest_label)
    throw Error(
        "{}: label = '{}' does not fit into a table; use at most {} characters, without "
        "'|' and line ends",
        one.place, one.label, longest_label);
}

/// The parts of a text between commas, except commas in quotes, brackets or braces.
std::vector<std::string> parts_of(std::string_view text) {
  std::vector<std::string> parts(1);
  int depth = 0;
  char quote = 0;
  for (const char c : text) {
    if (quote != 0)
      quote = c == quote ? 0 : quote;
    else if (c == '"' || c == '\'')
      quote = c;
    else if (c == '[' || c == '{')
      ++depth;
    else if (c == ']' || c == '}')
      --depth;
    if (c == ',' && depth == 0 && quote == 0)
      parts.emplace_back();
    else
      parts.back() += c;
  }
  return parts;
}

std::string trimmed(std::string_view text) {
  const auto begin = text.find_first_not_of(" \t");
  if (begin == std::string_view::npos) return {};
  return std::string(text.substr(begin, text.find_last_not_of(" \t") + 1 - begin));
}

/// Whether a case of `scheme` takes the values of this key.
bool applies(const SweptKey& swept, std::string_view scheme) {
  const Path path = path_of(swept.key);
  return path[0] != "scheme" || path[1] == scheme;
}

}  // namespace

std::optional<std::pair<std::int64_t, std::int64_t>> world_range(const std::string& text) {
  std::pair<std::int64_t, std::int64_t> out;
  const char* const end = text.data() + text.size();
  const auto least = std::from_chars(text.data(), end, out.first);
  if (least.ec != std::errc() || least.ptr == end || *least.ptr != ':') return {};
  const auto most = std::from_chars(least.ptr + 1, end, out.second);
  if (most.ec != std::errc() || most.ptr != end || out.first < 1 || out.second < out.first)
    return {};
  return out;
}

Assignment parse_assignment(const std::string& text, const std::string& place) {
  const auto equals = text.find('=');
  const std::string key = equals == std::string::npos ? "" : trimmed(text.substr(0, equals));
  if (key.empty()) throw Error("{}: write table.key=value, as in --set train.steps=100", place);
  return {path_of(key), toml_data(trimmed(text.substr(equals + 1)), place), place,
          std::filesystem::current_path()};
}

CaseConfig case_of_table(const TomlElement& table, const std::filesystem::path& folder) {
  CaseConfig out;
  out.place = table.place;
  for (const TomlValue& value : table.values) {
    Assignment one{value.path, value.data, value.place, folder};
    if (value.path[0] != "set") {
      put_field(out, one);
      continue;
    }
    one.path = split({value.path.begin() + 1, value.path.end()});
    if (one.path.empty() && value.data.is_table()) continue;  // set = {}
    refuse_common(one, "set");
    out.set.push_back(std::move(one));
  }
  check_case(out);
  return out;
}

CaseConfig case_of_text(const std::string& text) {
  CaseConfig out;
  out.place = fmt::format("{} {}", case_option, text);
  std::replace(out.place.begin(), out.place.end(), '\n', ' ');
  const auto colon = text.find(':');
  out.scheme = trimmed(text.substr(0, colon));
  const std::string settings = colon == std::string::npos ? "" : trimmed(text.substr(colon + 1));
  if (out.scheme.empty() || out.scheme.find('=') != std::string::npos)
    throw Error("{}: write SCHEME: KEY=VALUE, KEY=VALUE, as in --case 'ps: scheme.ps.servers=1'",
                out.place);
  std::set<Path> given;
  for (const std::string& part : parts_of(settings)) {
    if (settings.empty()) break;
    Assignment one = parse_assignment(part, out.place);
    if (!given.insert(one.path).second)
      throw Error("{}: {} is given twice; leave one out", out.place, key_of(one.path));
    if (one.path.size() == 1 &&
        (one.path[0] == "label" || one.path[0] == "world" || one.path[0] == "worlds")) {
      put_field(out, one);
      continue;
    }
    refuse_common(one, "a case");
    if (one.path.size() == 1)
      throw Error(
          "{}: unknown key '{}'; write label, world, worlds or a whole key such as "
          "scheme.{}.{} or train.{}",
          out.place, one.path[0], out.scheme, one.path[0], one.path[0]);
    out.set.push_back(std::move(one));
  }
  check_case(out);
  return out;
}

void add_to_sweep(Experiment& experiment, Assignment list) {
  const Path path = split(list.path);
  const std::string key = key_of(path);
  if (path == Path{"compare", "worlds"} || path == Path{"worlds"})
    throw Error("{}: a sweep over worlds is the key compare.worlds; set that instead of {}",
                list.place, key);
  if (!list.data.is_list())
    throw Error(
        "{}: compare.sweep: {} needs a list of values, as in [1, 2]; put a single value "
        "into its own table",
        list.place, key);
  if (path == Path{"world"})
    return list.data.put(&experiment.common.compare.worlds, list.place, key);
  refuse_common({path, list.data, list.place, list.folder}, "compare.sweep");
  SweptKey swept{key, {}};
  std::set<std::string> texts;
  for (const TomlData& value : list.data.elements()) {
    if (!texts.insert(value.text()).second)
      throw Error("{}: compare.sweep: {} lists {} twice", list.place, key, value.text());
    swept.values.push_back({path, value, list.place, list.folder});
  }
  if (swept.values.empty())
    throw Error(
        "{}: compare.sweep: {} is an empty list; name at least one value, or leave the key "
        "out",
        list.place, key);
  for (SweptKey& known : experiment.sweep)
    if (known.key == key) {
      known = std::move(swept);
      return;
    }
  experiment.sweep.push_back(std::move(swept));
}

void check_cases(const Experiment& experiment) {
  for (const CaseConfig& one : experiment.cases) {
    ExperimentConfig config = experiment.common;
    Binder(config).assign(one.set);
    for (const Assignment& set : one.set)
      if (set.path[0] == "scheme" && set.path[1] != one.scheme)
        throw Error("{}: {} is no option of the case's scheme {}; leave it out", set.place,
                    key_of(set.path), one.scheme);
  }
  for (const SweptKey& swept : experiment.sweep)
    for (const Assignment& value : swept.values) {
      ExperimentConfig config = experiment.common;
      Binder(config).assign({value});
    }
}

void limit_to(Experiment& experiment, const std::vector<std::string>& schemes,
              const std::vector<std::int64_t>& worlds) {
  CompareConfig& compare = experiment.common.compare;
  if (!schemes.empty()) {
    compare.schemes = schemes;
    for (const CaseConfig& one : experiment.cases)
      if (one.place.starts_with(case_option) &&
          std::find(schemes.begin(), schemes.end(), one.scheme) == schemes.end())
        throw Error("{}: --schemes leaves scheme {} out; name it there too", one.place, one.scheme);
    std::erase_if(experiment.cases, [&](const CaseConfig& one) {
      return std::find(schemes.begin(), schemes.end(), one.scheme) == schemes.end();
    });
  }
  if (worlds.empty()) return;
  for (const CaseConfig& one : experiment.cases)
    if (one.place.starts_with(case_option) && !one.worlds.empty())
      throw Error(
          "{}: it has worlds of its own, but --worlds gives those of all cases; leave one out",
          one.place);
  compare.worlds = worlds;
  for (CaseConfig& one : experiment.cases) {
    one.worlds.clear();
    one.published = {};
  }
}

void make_quick(Experiment& experiment) {
  CompareConfig& compare = experiment.common.compare;
  compare.repeats = compare.attempts = 1;
  compare.all_cores = false;
  compare.quick = true;
}

std::int64_t count_points(const std::vector<SweptKey>& sweep, std::string_view scheme,
                          std::int64_t limit) {
  std::int64_t count = 1;
  for (const SweptKey& swept : sweep)
    if (applies(swept, scheme))
      count = std::min(count * static_cast<std::int64_t>(swept.values.size()), limit + 1);
  return count;
}

std::vector<std::vector<Assignment>> points_of(const std::vector<SweptKey>& sweep,
                                               std::string_view scheme) {
  std::vector<std::vector<Assignment>> points(1);
  for (const SweptKey& swept : sweep) {
    if (!applies(swept, scheme)) continue;
    std::vector<std::vector<Assignment>> longer;
    for (const auto& point : points)
      for (const Assignment& value : swept.values) {
        longer.push_back(point);
        longer.back().push_back(value);
      }
    points = std::move(longer);
  }
  return points;
}

ExperimentConfig bind_line(const ExperimentConfig& common, const std::vector<Assignment>& set,
                           const std::vector<Assignment>& point, const std::string& place) {
  ExperimentConfig config = common;
  Binder binder(config);
  binder.assign(set);
  binder.assign(point);
  if (!device_traits(config.device.kind).simulated)
    config.cluster.reset();
  else if (!config.cluster || config.device.cluster != common.device.cluster)
    read_cluster_of(config, place);
  return config;
}

void read_cluster_of(ExperimentConfig& config, const std::string& place) {
  if (!device_traits(config.device.kind).simulated) return;
  if (config.device.cluster.empty())
    throw Error(
        "{}: device.kind = \"sim\" needs device.cluster, a file such as "
        "experiments/clusters/dgx-a100.toml",
        place);
  config.cluster = read_cluster(config.device.cluster);
}

}  // namespace ringside::runner
