// The tables of a cluster file: with those of the files that it includes, before anything is made
// of them.
#pragma once

#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "experiments/config/toml.h"

namespace ringside {

using TomlPath = std::vector<std::string>;

/// A table and the tables below it: {"efficiency", "fp32", "linear"} -> 0.8.
struct ClusterTable {
  TomlPath name;      // {"cluster"}, {"device", "t4"}
  std::string place;  // where it begins
  std::map<TomlPath, TomlValue> values{};
  std::string title() const;  // "[device.t4]"
};

/// [device.X] and [link.X] are named; of [cluster], [collective] and [message] there is one each.
/// A file's values win over those of the files that it includes, key by key.
class ClusterTables {
 public:
  /// Throws Error that names the file and line, for unknown tables too.
  explicit ClusterTables(const std::filesystem::path& file);

  /// Null if there is none.
  const ClusterTable* find(const std::string& name) const;
  /// The named table over those that it is `like`. `place` is where somebody names it: throws Error
  /// for a name that there is not, with the nearest.
  ClusterTable resolve(const std::string& kind, const std::string& name,
                       const std::string& place) const;
  /// X of all [kind.X].
  std::vector<std::string> names(const std::string& kind) const;
  /// The file and all that it includes, links followed.
  const std::set<std::filesystem::path>& files() const { return loaded_; }

 private:
  void load(const std::filesystem::path& file, std::vector<std::filesystem::path> within);
  void include(const TomlValue& value, const std::filesystem::path& file,
               const std::vector<std::filesystem::path>& within);
  ClusterTable resolve(const std::string& kind, const std::string& name, const std::string& place,
                       std::vector<std::string> within) const;

  std::map<TomlPath, ClusterTable> tables_;
  std::set<std::filesystem::path> loaded_;
};

/// "; did you mean 'X'?", or nothing if nothing is known.
std::string did_you_mean(const std::string& name, const std::vector<std::string>& known);

}  // namespace ringside
