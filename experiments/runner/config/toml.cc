#include "experiments/runner/config/toml.h"

#include <fmt/ranges.h>
#include <toml++/toml.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string_view>
#include <tuple>

#include "core/base/error.h"
#include "core/base/json_fields.h"
#include "core/base/nearest.h"

namespace ringside::runner {
namespace {

std::string_view type_of(const nlohmann::json& value) {
  switch (value.type()) {
    case nlohmann::json::value_t::object:
      return "a table";
    case nlohmann::json::value_t::array:
      return "a list";
    case nlohmann::json::value_t::string:
      return "a string";
    case nlohmann::json::value_t::boolean:
      return "a boolean";
    case nlohmann::json::value_t::number_float:
      return std::isfinite(value.get<double>()) ? "a number with a fraction" : "not finite";
    default:
      return "an integer";
  }
}

/// Puts data of the right type into a value; returns false, and changes nothing, for data of
/// another type.
bool take(const nlohmann::json& data, std::string* out) {
  if (data.is_string()) *out = data.get<std::string>();
  return data.is_string();
}
bool take(const nlohmann::json& data, bool* out) {
  if (data.is_boolean()) *out = data.get<bool>();
  return data.is_boolean();
}
bool take(const nlohmann::json& data, std::int64_t* out) {
  if (data.is_number_integer()) *out = data.get<std::int64_t>();
  return data.is_number_integer();
}
bool take(const nlohmann::json& data, double* out) {
  if (!data.is_number() || !std::isfinite(data.get<double>())) return false;
  *out = data.get<double>();
  return true;
}
template <class Number>
bool take(const nlohmann::json& data, std::pair<Number, Number>* out) {
  return data.is_array() && data.size() == 2 && take(data[0], &out->first) &&
         take(data[1], &out->second);
}
template <class Element>
bool take(const nlohmann::json& data, std::vector<Element>* out) {
  Element one;
  if (!data.is_array()) {
    if (!take(data, &one)) return false;
    *out = {one};
    return true;
  }
  std::vector<Element> all;
  for (const nlohmann::json& element : data) {
    if (!take(element, &one)) return false;
    all.push_back(one);
  }
  *out = std::move(all);
  return true;
}
bool take(const nlohmann::json& data, const Choice& out) {
  return data.is_string() && out.set(data.get<std::string>());
}
bool take(const nlohmann::json& data, const NumberOrName& out) {
  if (take(data, out.number)) return out.name.set(out.as_number);
  return data != out.as_number && take(data, out.name);
}
bool take(const nlohmann::json& data, const ListOrName& out) {
  if (data.is_array()) return take(data, out.list) && out.name.set(out.as_list);
  if (data == out.as_list || !take(data, out.name)) return false;
  out.list->clear();
  return true;
}
/// Fields of other types take no data of a TOML file.
template <class Other>
bool take(const nlohmann::json&, const Other&) {
  return false;
}

/// The description of the data that a field takes; empty if it takes none.
struct Wanted {
  std::string operator()(std::string*) const { return "a string"; }
  std::string operator()(bool*) const { return "true or false"; }
  std::string operator()(std::int64_t*) const { return "an integer"; }
  std::string operator()(double*) const { return "a finite number"; }
  std::string operator()(std::vector<std::string>*) const {
    return "a string or a list of strings";
  }
  std::string operator()(std::vector<std::int64_t>*) const {
    return "an integer or a list of integers";
  }
  template <class Number>
  std::string operator()(std::vector<std::pair<Number, Number>>*) const {
    return "a list of pairs of numbers, as in [[0, 1], [1, 2]]";
  }
  std::string operator()(const Choice& choice) const { return one_of(choice.names()); }
  std::string operator()(const NumberOrName& value) const {
    return or_name("a finite number", value.name, value.as_number);
  }
  std::string operator()(const ListOrName& value) const {
    return or_name("a list of integers", value.name, value.as_list);
  }
  template <class Other>
  std::string operator()(const Other&) const {
    return "left out";
  }

 private:
  static std::string or_name(const std::string& what, const Choice& choice,
                             std::string_view left_out) {
    std::vector<std::string> all = {what};
    for (const std::string_view name : choice.names())
      if (name != left_out) all.push_back(fmt::format("\"{}\"", name));
    return fmt::format("{}", fmt::join(all, " or "));
  }
};

/// Throws Error that begins with `place` for dates and times, the kinds of TOML value that no key
/// takes.
nlohmann::json json_of(const toml::node& node, const std::string& place) {
  if (const auto* value = node.as_string()) return value->get();
  if (const auto* value = node.as_boolean()) return value->get();
  if (const auto* value = node.as_integer()) return value->get();
  if (const auto* value = node.as_floating_point()) return value->get();
  if (const auto* list = node.as_array()) {
    auto out = nlohmann::json::array();
    for (const toml::node& element : *list) out.push_back(json_of(element, place));
    return out;
  }
  if (const auto* table = node.as_table()) {
    auto out = nlohmann::json::object();
    for (auto&& [key, element] : *table)
      out[std::string(std::string_view(key))] = json_of(element, place);
    return out;
  }
  throw Error("{}: no key takes a date or time; write text in quotes", place);
}

/// The largest depth of nested tables. The parser has no limit, and every level takes stack.
constexpr std::size_t deepest = 16;

/// The position behind the string that begins at `at`.
std::size_t end_of_string(std::string_view text, std::size_t at) {
  const char quote = text[at];
  const std::string three(3, quote);
  const bool several_lines = text.substr(at, 3) == three;
  for (at += several_lines ? 3 : 1; at < text.size(); ++at) {
    if (quote == '"' && text[at] == '\\')
      ++at;
    else if (several_lines && text.substr(at, 3) == three)
      return at + 3;
    else if (!several_lines && (text[at] == quote || text[at] == '\n'))
      return at + 1;
  }
  return text.size();
}

/// The number of the line whose dotted key has more than `deepest` parts; 0 if no line has one. The
/// text is searched before it is parsed; whether it is TOML at all is left to the parser.
std::ptrdiff_t line_of_deep_key(std::string_view text) {
  std::size_t parts = 1;
  for (std::size_t at = 0; at < text.size();) {
    const char c = text[at];
    if (c == '"' || c == '\'') {
      at = end_of_string(text, at);
      continue;
    }
    const bool within_key = std::isalnum(static_cast<unsigned char>(c)) || c == '-' || c == '_' ||
                            c == ' ' || c == '\t' || c == '.';
    if (!within_key) parts = 1;
    if (c == '.' && ++parts > deepest)
      return 1 + std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(at), '\n');
    at = c == '#' ? std::min(text.find('\n', at), text.size()) : at + 1;
  }
  return 0;
}

/// Collects the values of one file, with the place of each.
class Flattener {
 public:
  explicit Flattener(std::string file) : file_(std::move(file)) {}

  std::vector<TomlValue> run(const toml::table& root) {
    visit(root, {});
    std::stable_sort(found_.begin(), found_.end(),
                     [](const auto& a, const auto& b) { return a.first < b.first; });
    std::vector<TomlValue> out;
    for (auto& [position, value] : found_) out.push_back(std::move(value));
    return out;
  }

 private:
  using Position = std::pair<toml::source_index, toml::source_index>;

  std::string place_of(const toml::node& node) const {
    return fmt::format("{}:{}", file_, std::max<toml::source_index>(1, node.source().begin.line));
  }

  void visit(const toml::table& table, const std::vector<std::string>& prefix) {
    if (prefix.size() > deepest)
      throw Error("{}: more than {} tables are nested", place_of(table), deepest);
    for (auto&& [key, node] : table) {
      std::vector<std::string> path = prefix;
      path.emplace_back(std::string_view(key));
      const toml::table* inner = node.as_table();
      if (inner && !inner->empty()) {
        visit(*inner, path);
        continue;
      }
      const auto begin = node.source().begin;
      const std::string place = place_of(node);
      found_.emplace_back(Position{begin.line, begin.column},
                          TomlValue{std::move(path), TomlData(json_of(node, place)), place,
                                    inner ? place : place_of(table), elements(node)});
    }
  }

  std::vector<TomlElement> elements(const toml::node& node) const {
    std::vector<TomlElement> out;
    const toml::array* list = node.as_array();
    if (!list || !list->is_homogeneous<toml::table>()) return out;
    for (const toml::node& element : *list)
      out.push_back({place_of(element), Flattener(file_).run(*element.as_table())});
    return out;
  }

  std::string file_;
  std::vector<std::pair<Position, TomlValue>> found_;
};

std::string toml_of_json(const nlohmann::json& value) {
  std::vector<std::string> parts;
  switch (value.type()) {
    case nlohmann::json::value_t::array:
      for (const auto& element : value) parts.push_back(toml_of_json(element));
      return fmt::format("[{}]", fmt::join(parts, ", "));
    case nlohmann::json::value_t::object:
      for (const auto& [key, element] : value.items())
        parts.push_back(fmt::format("{} = {}", toml_key(key), toml_of_json(element)));
      return parts.empty() ? "{}" : fmt::format("{{ {} }}", fmt::join(parts, ", "));
    case nlohmann::json::value_t::string: {
      // A JSON string is written like a TOML string, except that TOML wants DEL escaped.
      std::string text = value.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
      for (std::size_t at = 0; (at = text.find('\x7f', at)) != std::string::npos;)
        text.replace(at, 1, "\\u007f");
      return text;
    }
    case nlohmann::json::value_t::number_float:
      if (!std::isfinite(value.get<double>())) return fmt::format("{}", value.get<double>());
      return value.dump();
    default:
      return value.dump();
  }
}

}  // namespace

void put(const TomlValue& one, const Fields& fields, std::string_view table) {
  const std::string key = fmt::format("{}", fmt::join(one.path, "."));
  std::vector<std::string> known;
  for (const Field& field : fields) {
    known.emplace_back(field.name);
    if (key == field.name) return one.data.put(field, one.place, key);
  }
  throw Error("{}: unknown key '{}' in [[{}]]; did you mean '{}'?", one.place, key, table,
              nearest(key, known));
}

std::vector<TomlValue> read_toml(const std::filesystem::path& file) {
  if (!std::filesystem::exists(file)) throw Error("{}: no such file", file.string());
  if (!std::filesystem::is_regular_file(file)) throw Error("{}: not a file", file.string());
  std::ifstream in(file, std::ios::binary);
  std::ostringstream text;
  if (in.peek() != std::ifstream::traits_type::eof()) text << in.rdbuf();
  if (!in.is_open() || in.bad()) throw Error("{}: cannot be read", file.string());
  if (const auto line = line_of_deep_key(text.view()); line > 0)
    throw Error("{}:{}: a key has more than {} parts", file.string(), line, deepest);
  try {
    return Flattener(file.string()).run(toml::parse(text.view()));
  } catch (const toml::parse_error& error) {
    throw Error("{}:{}: {}", file.string(), error.source().begin.line, error.description());
  }
}

TomlData toml_data(const std::string& text, const std::string& place) {
  if (line_of_deep_key(text) > 0) throw Error("{}: a key has more than {} parts", place, deepest);
  try {
    const toml::table parsed = toml::parse("value = " + text);
    const toml::node* value = parsed.get("value");
    const bool date = value->is_date() || value->is_time() || value->is_date_time();
    if (parsed.size() == 1 && !date) return TomlData(json_of(*value, place));
  } catch (const toml::parse_error&) {
    if (text.empty() || text.find_first_of("\"'[]{}\n") != std::string::npos)
      throw Error(
          "{}: the value is not valid TOML; quote strings, as in compare.schemes='[\"ddp\"]'",
          place);
  }
  return TomlData(text);
}

std::string toml_text(const FieldValue& value) { return toml_of_json(to_json(value)); }

std::string toml_key(const std::string& name) {
  const bool bare = !name.empty() && std::all_of(name.begin(), name.end(), [](unsigned char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '_';
  });
  return bare ? name : toml_of_json(name);
}

TomlData::TomlData(nlohmann::json data)
    : data_(std::make_shared<const nlohmann::json>(std::move(data))) {}

bool TomlData::is_table() const { return data_->is_object(); }
bool TomlData::is_list() const { return data_->is_array(); }
std::vector<std::pair<std::string, TomlData>> TomlData::members() const {
  std::vector<std::pair<std::string, TomlData>> out;
  if (is_table())
    for (const auto& [name, member] : data_->items()) out.emplace_back(name, TomlData(member));
  return out;
}
std::vector<TomlData> TomlData::elements() const {
  if (!is_list()) return {*this};
  std::vector<TomlData> out;
  for (const nlohmann::json& element : *data_) out.emplace_back(element);
  return out;
}
std::string TomlData::text() const { return toml_of_json(*data_); }

bool TomlData::put(const FieldValue& out) const {
  return std::visit([&](const auto& kept) { return take(*data_, kept); }, out);
}

void TomlData::put(const FieldValue& out, const std::string& place, const std::string& key) const {
  if (put(out)) return;
  const auto* choice = std::get_if<Choice>(&out);
  if (choice && data_->is_string())
    throw Error("{}: {} = {} is not known; choose {}", place, key, text(), one_of(choice->names()));
  refuse(std::visit(Wanted(), out), place, key);
}

void TomlData::put(const Field& field, const std::string& place, const std::string& key) const {
  put(field.value, place, key);
  try {
    require_range(field, key);
  } catch (const Error& error) {
    throw Error("{}: {}", place, error.what());
  }
}

void TomlData::refuse(std::string_view wanted, const std::string& place,
                      const std::string& key) const {
  std::string shown = text();
  if (shown.size() > 40) shown = shown.substr(0, 37) + "...";
  throw Error("{}: {} must be {}, but {} is {}", place, key, wanted, shown, type_of(*data_));
}

}  // namespace ringside::runner
