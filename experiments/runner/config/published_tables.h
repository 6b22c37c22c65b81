// The index of the published tables that `ringside reproduce` recomputes.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/fields.h"

namespace ringside::runner {

/// One published table: a table [[table]] of the index.
struct PublishedTable {
  std::string name{};    // "T3"
  std::string title{};   // the subject of the table
  std::string source{};  // the publication
  /// One or two sentences about the assumptions of the table, and whether they can be right.
  std::string assumes{};
  /// Experiment files whose cases hold the table's figures, and files of collectives. In the index
  /// they are relative to its folder; read_published_tables() makes them paths that can be opened.
  std::vector<std::string> files{};
};

Fields fields_of(PublishedTable& table);

/// Stands for all tables where names of tables are expected.
inline constexpr std::string_view all_tables = "all";

/// Reads an index. Throws Error that names file and line for a key that is unknown, has a value of
/// the wrong type or is missing, for a name that two tables have, and for a file that is not there.
std::vector<PublishedTable> read_published_tables(const std::filesystem::path& index);

/// The tables of these names, in the order of the index. Throws Error that lists all tables if
/// there are no names, or if one is unknown; it then suggests the nearest one.
std::vector<PublishedTable> find_tables(const std::vector<PublishedTable>& tables,
                                        const std::vector<std::string>& names);

}  // namespace ringside::runner
