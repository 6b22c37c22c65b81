#include "experiments/config.h"

#include <fmt/ranges.h>
#include <toml++/toml.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <sstream>
#include <string_view>
#include <type_traits>

#include "core/base/error.h"
#include "core/base/fields.h"
#include "core/base/nearest.h"
#include "experiments/registry.h"

namespace ringside {
namespace {

using Path = std::vector<std::string>;

std::string_view type_of(const toml::node& node) {
  switch (node.type()) {
    case toml::node_type::table:
      return "a table";
    case toml::node_type::array:
      return "a list";
    case toml::node_type::string:
      return "a string";
    case toml::node_type::integer:
      return "an integer";
    case toml::node_type::floating_point:
      return "a number with a fraction";
    case toml::node_type::boolean:
      return "a boolean";
    default:
      return "a date or time";
  }
}

/// The value as TOML writes it, on one line, cut where it is long.
std::string text_of(const toml::node& node) {
  std::ostringstream out;
  node.visit([&](const auto& value) { out << value; });
  std::string text = out.str();
  for (char& c : text)
    if (c == '\n') c = ' ';
  return text.size() <= 40 ? text : text.substr(0, 37) + "...";
}

bool convert(const toml::node& node, std::string& out) {
  const auto* value = node.as_string();
  if (value) out = value->get();
  return value != nullptr;
}
bool convert(const toml::node& node, bool& out) {
  const auto* value = node.as_boolean();
  if (value) out = value->get();
  return value != nullptr;
}
bool convert(const toml::node& node, std::int64_t& out) {
  const auto* value = node.as_integer();
  if (value) out = value->get();
  return value != nullptr;
}
bool convert(const toml::node& node, double& out) {
  std::int64_t integer = 0;
  if (convert(node, integer)) {
    out = static_cast<double>(integer);
    return true;
  }
  const auto* value = node.as_floating_point();
  if (!value || !std::isfinite(value->get())) return false;
  out = value->get();
  return true;
}
/// A list, or one element that stands for a list of one.
template <class T>
bool convert(const toml::node& node, std::vector<T>& out) {
  T one;
  if (convert(node, one)) {
    out = {one};
    return true;
  }
  const auto* list = node.as_array();
  if (!list) return false;
  std::vector<T> values;
  for (const toml::node& element : *list) {
    if (!convert(element, one)) return false;
    values.push_back(one);
  }
  out = std::move(values);
  return true;
}

template <class T>
constexpr std::string_view wanted() {
  if constexpr (std::is_same_v<T, std::string>) return "a string";
  if constexpr (std::is_same_v<T, bool>) return "true or false";
  if constexpr (std::is_same_v<T, std::int64_t>) return "an integer";
  if constexpr (std::is_same_v<T, double>) return "a finite number";
  if constexpr (std::is_same_v<T, std::vector<std::string>>) return "a string or a list of strings";
  if constexpr (std::is_same_v<T, std::vector<std::int64_t>>)
    return "an integer or a list of integers";
}

std::string join(Path::const_iterator begin, Path::const_iterator end) {
  return fmt::format("{}", fmt::join(begin, end, "."));
}

/// Puts values into the configuration; `place` ("quickstart.toml:12", "--set train.steps=x") begins
/// every error.
class Binder {
 public:
  explicit Binder(ExperimentConfig& config) : config_(config) {}

  /// `folder`: what relative paths are relative to.
  void assign(const Path& path, const toml::node& node, const std::string& place,
              const std::filesystem::path& folder) {
    place_ = place;
    if (path[0] == "name" && path.size() == 1) return set(config_.name, node, "name");
    if (path[0] == "scheme") return assign_option(path, node);
    bool known = false;
    visit_tables([&](std::string_view table, auto& fields) {
      if (path[0] != table) return;
      known = true;
      assign_field(fields, path, node);
    });
    if (!known) refuse_top(path[0], node.is_table() || path.size() > 1);
    if (path == Path{"data", "path"})
      for (std::string& file : config_.data.path)
        if (!file.empty())
          file = std::filesystem::absolute(folder / file).lexically_normal().string();
  }

  /// An empty table sets nothing, but its name must be a known one.
  void check_table(const Path& path, const std::string& place) {
    place_ = place;
    bool known = path[0] == "scheme";
    visit_tables([&](std::string_view table, auto&) { known |= path[0] == table; });
    if (!known) refuse_top(path[0], true);
    if (path.size() == 1) return;
    if (path[0] != "scheme" || path.size() > 2)
      throw Error("{}: unknown table '{}'", place_, join(path.begin(), path.end()));
    find_row(path[1]);
  }

 private:
  template <class Visitor>
  void visit_tables(Visitor&& visitor) {
    visitor("model", config_.model);
    visitor("data", config_.data);
    visitor("train", config_.train);
    visitor("optimizer", config_.optimizer);
    visitor("device", config_.device);
    visitor("compare", config_.compare);
  }

  template <class T>
  void set(T& out, const toml::node& node, const std::string& key) {
    if (!convert(node, out))
      throw Error("{}: {} must be {}, but {} is {}", place_, key, wanted<T>(), text_of(node),
                  type_of(node));
  }

  template <class Fields>
  void assign_field(Fields& fields, const Path& path, const toml::node& node) {
    if (path.size() == 1)
      throw Error("{}: '{}' is a table; write [{}] with its keys below, or {}.KEY = VALUE", place_,
                  path[0], path[0], path[0]);
    std::vector<std::string> known;
    bool found = false;
    visit_fields(fields, [&](std::string_view name, auto& field, std::string_view) {
      known.emplace_back(name);
      if (path.size() != 2 || path[1] != name) return;
      set(field, node, path[0] + "." + path[1]);
      found = true;
    });
    if (!found) refuse_key(path, 1, known);
  }

  void assign_option(const Path& path, const toml::node& node) {
    if (path.size() < 3)
      throw Error("{}: an option of a scheme belongs into [scheme.NAME], or is scheme.NAME.KEY",
                  place_);
    const SchemeRow& row = find_row(path[1]);
    std::vector<std::string> known;
    for (const auto& [name, value] : row.defaults.items()) known.push_back(name);
    const auto option = path.size() == 3 ? row.defaults.find(path[2]) : row.defaults.end();
    if (option == row.defaults.end()) refuse_key(path, 2, known);
    const std::string key = "scheme." + path[1] + "." + path[2];
    nlohmann::json& out = config_.scheme_options[path[1]][path[2]];
    if (option->is_boolean()) return set_option<bool>(out, node, key);
    if (option->is_number_float()) return set_option<double>(out, node, key);
    if (option->is_number()) return set_option<std::int64_t>(out, node, key);
    set_option<std::string>(out, node, key);
  }

  template <class T>
  void set_option(nlohmann::json& out, const toml::node& node, const std::string& key) {
    T value{};
    set(value, node, key);
    out = value;
  }

  const SchemeRow& find_row(const std::string& name) {
    try {
      return find_scheme(name);
    } catch (const Error& error) {
      throw Error("{}: {}", place_, error.what());
    }
  }

  /// `depth`: how many of the path's names are tables that exist.
  [[noreturn]] void refuse_key(const Path& path, std::size_t depth,
                               const std::vector<std::string>& known) {
    const auto middle = path.begin() + static_cast<std::ptrdiff_t>(depth);
    throw Error("{}: unknown key '{}' in [{}]; did you mean '{}'?", place_,
                join(middle, path.end()), join(path.begin(), middle), nearest(path[depth], known));
  }

  [[noreturn]] void refuse_top(const std::string& name, bool table) {
    std::vector<std::string> known = {"scheme"};
    if (!table) known.emplace_back("name");
    visit_tables([&](std::string_view one, auto&) { known.emplace_back(one); });
    throw Error("{}: unknown {} '{}'; did you mean '{}'?", place_, table ? "table" : "key", name,
                nearest(name, known));
  }

  ExperimentConfig& config_;
  std::string place_;
};

toml::table parse_file(const std::filesystem::path& file) {
  if (!std::filesystem::exists(file))
    throw Error("{}: no such file; name an experiment file such as experiments/quickstart.toml",
                file.string());
  if (!std::filesystem::is_regular_file(file))
    throw Error("{}: not a file; name an experiment file (*.toml)", file.string());
  std::ifstream in(file, std::ios::binary);
  std::ostringstream text;
  if (in.peek() != std::ifstream::traits_type::eof()) text << in.rdbuf();
  if (!in.is_open() || in.bad()) throw Error("{}: cannot be read", file.string());
  try {
    return toml::parse(text.str());
  } catch (const toml::parse_error& error) {
    throw Error("{}:{}: {}", file.string(), error.source().begin.line, error.description());
  }
}

/// Every value below `table` that is not itself a table.
void assign_all(Binder& binder, const toml::table& table, const Path& prefix,
                const std::filesystem::path& file) {
  for (auto&& [key, node] : table) {
    Path path = prefix;
    path.emplace_back(std::string_view(key));
    const toml::table* inner = node.as_table();
    if (inner && !inner->empty()) {
      assign_all(binder, *inner, path, file);
    } else {
      const auto place = fmt::format("{}:{}", file.string(), node.source().begin.line);
      if (inner)
        binder.check_table(path, place);
      else
        binder.assign(path, node, place, file.parent_path());
    }
  }
}

/// A TOML value; what is none (text.txt, ../data) is a bare word.
toml::table parse_value(const std::string& text, const std::string& place) {
  try {
    toml::table parsed = toml::parse("value = " + text);
    const toml::node* value = parsed.get("value");
    const bool date = value->is_date() || value->is_time() || value->is_date_time();
    if (parsed.size() == 1 && !date) return parsed;
  } catch (const toml::parse_error&) {
    if (text.empty() || text.find_first_of("\"'[]{}\n") != std::string::npos)
      throw Error("{}: the value is no TOML; quote strings, as in compare.schemes='[\"ddp\"]'",
                  place);
  }
  toml::table word;
  word.insert("value", text);
  return word;
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
  const toml::table value = parse_value(override_text.substr(equals + 1), place);
  binder.assign(path, *value.get("value"), place, std::filesystem::current_path());
}

}  // namespace

ExperimentConfig read_experiment(const std::filesystem::path& file,
                                 const std::vector<std::string>& overrides) {
  ExperimentConfig config;
  config.name = file.stem().string();
  Binder binder(config);
  assign_all(binder, parse_file(file), {}, file);
  for (const std::string& override_text : overrides) assign_override(binder, override_text);
  return config;
}

}  // namespace ringside
