#include "experiments/runner/config/cluster_tables.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>

#include "core/base/error.h"
#include "core/base/nearest.h"

namespace ringside::runner {
namespace {

/// The most files in a chain in which each includes the next, and the most tables in a chain in
/// which each is `like` the next.
constexpr std::size_t longest_chain = 16;

std::string join(const TomlPath& path) { return fmt::format("{}", fmt::join(path, ".")); }

std::vector<std::string> table_kinds() {
  return {"cluster", "device", "link", "collective", "message", "storage", "failures"};
}

/// Tables of which a file may have several, as [[slow]] begins one.
constexpr std::array<std::string_view, 4> lists = {"others", "slow", "speeds", "timed"};

bool is_listed(std::string_view kind) {
  return std::find(lists.begin(), lists.end(), kind) != lists.end();
}

bool is_named(const std::string& kind) { return kind == "device" || kind == "link"; }

/// Puts the values of `over` into `table`; where both have a value, that of `over` wins. An
/// efficiency for all dtypes in `over` also replaces those for single dtypes in `table`.
void merge(ClusterTable& table, const ClusterTable& over) {
  for (const auto& [path, value] : over.values)
    if (path.size() == 2 && path[0] == "efficiency")
      std::erase_if(table.values, [&, &key = path[1]](const auto& one) {
        return one.first.size() == 3 && one.first[0] == "efficiency" && one.first[2] == key;
      });
  const auto replaced = [&](const TomlPath& path) {
    return over.values.contains(path) || (path.size() == 3 && path[0] == "efficiency" &&
                                          over.values.contains({path[0], path[2]}));
  };
  std::erase_if(table.assumed, [&](const auto& one) { return replaced(one.first); });
  table.assumed.insert(over.assumed.begin(), over.assumed.end());
  for (const auto& [path, value] : over.values) table.values.insert_or_assign(path, value);
  table.name = over.name;
  table.place = over.place;
}

void add(std::map<TomlPath, ClusterTable>& tables, const TomlValue& value) {
  const TomlPath& path = value.path;
  const bool is_table = value.data.is_table();
  std::vector<std::string> known = table_kinds();
  if (std::find(known.begin(), known.end(), path[0]) == known.end()) {
    const bool in_table = is_table || path.size() > 1;
    if (!in_table) known.emplace_back("include");
    known.insert(known.end(), lists.begin(), lists.end());
    throw Error("{}: unknown {} '{}'{}", value.place, in_table ? "table" : "key", path[0],
                did_you_mean(path[0], known));
  }
  const std::size_t depth = is_named(path[0]) ? 2 : 1;
  if (path.size() < depth + (is_table ? 0 : 1))
    throw Error("{}: '{}' is a table; write [{}{}] with its keys below", value.place, join(path),
                path[0], depth == 2 ? ".NAME" : "");
  const auto middle = path.begin() + static_cast<std::ptrdiff_t>(depth);
  const TomlPath name(path.begin(), middle);
  auto& table = tables.try_emplace(name, ClusterTable{name, value.table}).first->second;
  if (middle != path.end()) table.values.emplace(TomlPath(middle, path.end()), value);
}

/// Takes the list `assumed` out of the table's values.
void take_assumed(ClusterTable& table) {
  const auto list = table.values.find({"assumed"});
  if (list == table.values.end()) return;
  std::vector<std::string> keys;
  list->second.data.put(&keys, list->second.place, "assumed");
  for (const std::string& key : keys) {
    TomlPath path;
    for (std::size_t begin = 0, end = 0; end != std::string::npos; begin = end + 1) {
      end = key.find('.', begin);
      path.push_back(key.substr(begin, end - begin));
    }
    table.assumed.emplace(std::move(path), list->second.place);
  }
  table.values.erase(list);
}

std::vector<ClusterTable> list_of(const TomlValue& value) {
  if (value.elements.empty())
    throw Error("{}: write each entry as a table [[{}]], with two brackets on each side",
                value.place, value.path[0]);
  std::vector<ClusterTable> out;
  for (const TomlElement& element : value.elements) {
    ClusterTable& table = out.emplace_back(ClusterTable{{value.path[0]}, element.place});
    for (const TomlValue& one : element.values) table.values.emplace(one.path, one);
  }
  return out;
}

}  // namespace

std::string did_you_mean(const std::string& name, const std::vector<std::string>& known) {
  return known.empty() ? "" : fmt::format("; did you mean '{}'?", nearest(name, known));
}

std::string ClusterTable::title() const { return fmt::format("[{}]", join(name)); }

ClusterTables::ClusterTables(const std::filesystem::path& file) { load(file, {}); }

const ClusterTable* ClusterTables::find(const std::string& name) const {
  const auto it = tables_.find({name});
  return it == tables_.end() ? nullptr : &it->second;
}

std::vector<ClusterTable> ClusterTables::list(const std::string& name) const {
  const auto it = lists_.find(name);
  return it == lists_.end() ? std::vector<ClusterTable>() : it->second;
}

std::vector<std::string> ClusterTables::names(const std::string& kind) const {
  std::vector<std::string> names;
  for (const auto& [name, table] : tables_)
    if (name[0] == kind) names.push_back(name.back());
  return names;
}

ClusterTable ClusterTables::resolve(const std::string& kind, const std::string& name,
                                    const std::string& place) const {
  return resolve(kind, name, place, {});
}

ClusterTable ClusterTables::resolve(const std::string& kind, const std::string& name,
                                    const std::string& place,
                                    std::vector<std::string> within) const {
  const auto found = tables_.find({kind, name});
  if (found == tables_.end())
    throw Error("{}: unknown {} '{}'{}", place, kind, name, did_you_mean(name, names(kind)));
  const ClusterTable& table = found->second;
  const auto like = table.values.find({"like"});
  if (like == table.values.end()) return table;
  std::string other;
  like->second.data.put(&other, like->second.place, "like");
  within.push_back(name);
  if (std::find(within.begin(), within.end(), other) != within.end())
    throw Error("{}: {} '{}' refers back to itself through `like`", like->second.place, kind,
                other);
  if (within.size() > longest_chain)
    throw Error("{}: a chain of tables linked by `like` is longer than {}", like->second.place,
                longest_chain);
  ClusterTable whole = resolve(kind, other, like->second.place, within);
  // The stated error of a device is not inherited: it was found for that device alone.
  std::erase_if(whole.values, [](const auto& one) { return one.first[0] == "error"; });
  merge(whole, table);
  return whole;
}

void ClusterTables::load(const std::filesystem::path& file,
                         std::vector<std::filesystem::path> within) {
  const auto canonical = std::filesystem::weakly_canonical(file);
  if (!loaded_.insert(canonical).second) return;
  within.push_back(canonical);
  std::map<TomlPath, ClusterTable> own;
  std::map<std::string, std::vector<ClusterTable>> lists;
  for (const TomlValue& value : read_toml(file)) {
    if (value.path == TomlPath{"include"})
      include(value, file, within);
    else if (is_listed(value.path[0]))
      lists[value.path[0]] = list_of(value);
    else
      add(own, value);
  }
  for (auto& [name, table] : own) {
    take_assumed(table);
    const auto [it, is_new] = tables_.try_emplace(name, table);
    if (!is_new) merge(it->second, table);
  }
  for (auto& [name, list] : lists) lists_[name] = std::move(list);
}

void ClusterTables::include(const TomlValue& value, const std::filesystem::path& file,
                            const std::vector<std::filesystem::path>& within) {
  std::vector<std::string> names;
  value.data.put(&names, value.place, "include");
  for (const std::string& name : names) {
    const auto target = (file.parent_path() / name).lexically_normal();
    if (!std::filesystem::is_regular_file(target))
      throw Error("{}: include: cannot find the file {}", value.place, target.string());
    const auto canonical = std::filesystem::weakly_canonical(target);
    if (std::find(within.begin(), within.end(), canonical) != within.end())
      throw Error("{}: include: {} includes this file already", value.place, target.string());
    if (within.size() > longest_chain)
      throw Error("{}: a chain of includes is longer than {} files", value.place, longest_chain);
    load(target, within);
  }
}

}  // namespace ringside::runner
