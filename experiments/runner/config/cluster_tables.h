// The tables of a cluster file and of the files that it includes, not yet made into a cluster.
#pragma once

#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "experiments/runner/config/toml.h"

namespace ringside::runner {

using TomlPath = std::vector<std::string>;

/// A table with the values of the tables below it: {"efficiency", "fp32", "linear"} -> 0.8.
struct ClusterTable {
  TomlPath name;      // {"cluster"}, {"device", "t4"}
  std::string place;  // where the table begins
  std::map<TomlPath, TomlValue> values{};
  /// The values that are assumed: those that a list `assumed` of their table names.
  std::map<TomlPath, std::string> assumed{};  // and the place of the list
  std::string title() const;                  // "[device.t4]"
};

/// The tables by name. There may be many [device.X] and [link.X], but only one each of [cluster],
/// [collective], [message], [storage] and [failures]. A file's values win over those of the files
/// that it includes, key by key. A value that replaces an assumed one is not assumed, unless the
/// list `assumed` of its own table names it.
class ClusterTables {
 public:
  /// Reads the file. Throws Error that names the file and the line, also for unknown tables.
  explicit ClusterTables(const std::filesystem::path& file);

  /// The table of that name; null if the files have none.
  const ClusterTable* find(const std::string& name) const;
  /// The tables [[NAME]], which are `others`, `slow` and `speeds`, in the order of the file; those
  /// of a file replace all those of the files that it includes.
  std::vector<ClusterTable> list(const std::string& name) const;
  /// The named table, laid over the tables that it is `like`. `place` is where the name is used.
  /// Throws Error for an unknown name, with the nearest known one.
  ClusterTable resolve(const std::string& kind, const std::string& name,
                       const std::string& place) const;
  /// The names X of all tables [kind.X].
  std::vector<std::string> names(const std::string& kind) const;
  /// The file and all files that it includes, with links followed.
  const std::set<std::filesystem::path>& files() const { return loaded_; }

 private:
  void load(const std::filesystem::path& file, std::vector<std::filesystem::path> within);
  void include(const TomlValue& value, const std::filesystem::path& file,
               const std::vector<std::filesystem::path>& within);
  ClusterTable resolve(const std::string& kind, const std::string& name, const std::string& place,
                       std::vector<std::string> within) const;

  std::map<TomlPath, ClusterTable> tables_;
  std::map<std::string, std::vector<ClusterTable>> lists_;
  std::set<std::filesystem::path> loaded_;
};

/// "; did you mean 'X'?" with the nearest known name, or an empty text if `known` is empty.
std::string did_you_mean(const std::string& name, const std::vector<std::string>& known);

}  // namespace ringside::runner
