#include "experiments/runner/config/published_tables.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "core/base/error.h"
#include "core/base/nearest.h"
#include "experiments/runner/config/toml.h"

namespace ringside::runner {
namespace {

constexpr std::string_view table_name = "table";

void check(const PublishedTable& table, const std::vector<PublishedTable>& before,
           const std::string& place) {
  const std::pair<const char*, const std::string&> needed[] = {
      {"name", table.name}, {"title", table.title}, {"assumes", table.assumes}};
  for (const auto& [key, text] : needed)
    if (text.empty()) throw Error("{}: [[{}]] needs {}", place, table_name, key);
  if (table.name == all_tables)
    throw Error("{}: name = '{}' stands for all tables; choose another name", place, table.name);
  if (std::any_of(before.begin(), before.end(),
                  [&](const PublishedTable& other) { return other.name == table.name; }))
    throw Error("{}: name = '{}' is given to two tables; choose another name", place, table.name);
  if (table.files.empty())
    throw Error("{}: table {} has no files; name its experiment files", place, table.name);
}

std::string names_text(const std::vector<PublishedTable>& tables) {
  std::vector<std::string> texts;
  for (const PublishedTable& table : tables)
    texts.push_back(fmt::format("{} ({})", table.name, table.title));
  return fmt::format("{}, or {}", fmt::join(texts, ", "), all_tables);
}

}  // namespace

Fields fields_of(PublishedTable& table) {
  return {{"name", &table.name},
          {"title", &table.title},
          {"source", &table.source},
          {"assumes", &table.assumes},
          {"files", &table.files}};
}

std::vector<PublishedTable> read_published_tables(const std::filesystem::path& index) {
  std::vector<PublishedTable> tables;
  for (const TomlValue& value : read_toml(index)) {
    if (value.path.size() != 1 || value.path[0] != table_name || value.elements.empty())
      throw Error("{}: {} does not belong into an index of tables, which has tables [[{}]] alone",
                  value.place, fmt::join(value.path, "."), table_name);
    for (const TomlElement& element : value.elements) {
      PublishedTable table;
      for (const TomlValue& one : element.values) put(one, fields_of(table), table_name);
      check(table, tables, element.place);
      for (std::string& file : table.files) {
        file = (index.parent_path() / file).lexically_normal().string();
        if (!std::filesystem::is_regular_file(file))
          throw Error("{}: files of table {}: {}: no such file", element.place, table.name, file);
      }
      tables.push_back(std::move(table));
    }
  }
  if (tables.empty())
    throw Error("{}: the index has no table; write [[{}]]", index.string(), table_name);
  return tables;
}

std::vector<PublishedTable> find_tables(const std::vector<PublishedTable>& tables,
                                        const std::vector<std::string>& names) {
  if (names.empty()) throw Error("name the tables to reproduce: {}", names_text(tables));
  std::vector<std::string> known;
  for (const PublishedTable& table : tables) known.push_back(table.name);
  known.emplace_back(all_tables);
  for (const std::string& name : names)
    if (std::find(known.begin(), known.end(), name) == known.end())
      throw Error("unknown table '{}'; did you mean '{}'? There are: {}", name,
                  nearest(name, known), names_text(tables));
  std::vector<PublishedTable> found;
  for (const PublishedTable& table : tables)
    if (std::any_of(names.begin(), names.end(), [&](const std::string& name) {
          return name == table.name || name == all_tables;
        }))
      found.push_back(table);
  return found;
}

}  // namespace ringside::runner
