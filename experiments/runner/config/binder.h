// Assignment of values to an ExperimentConfig by the names of its keys.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "experiments/runner/config/config.h"
#include "experiments/runner/registry/registry.h"

namespace ringside::runner {

/// Whether the path is model.preset or model.from. Each sets keys of [model] that are not named, so
/// it is applied before the other keys that are given with it.
bool is_model_source(const std::vector<std::string>& path);

/// "scheme.ps.servers"
std::string key_of(const std::vector<std::string>& path);
/// {"scheme", "ps", "servers"}
std::vector<std::string> path_of(const std::string& key);

/// Puts values into `config`, which must outlive the binder. Every error begins with the place of
/// the value.
class Binder {
 public:
  explicit Binder(ExperimentConfig& config) : config_(config) {}

  /// Puts values that are given together, such as those of one file, into the configuration: the
  /// source of the model first, the others in their order. Throws Error if both train.global_batch
  /// and train.batch_per_rank are among them, or two sources of the model, and for a key of [model]
  /// that disagrees with the file of model.from. Values that were assigned before may be replaced.
  void assign(const std::vector<Assignment>& together);

  /// Checks the name of an empty table: the table sets nothing, but its name must be known.
  void check_table(const std::vector<std::string>& path, const std::string& place);

 private:
  using Path = std::vector<std::string>;

  void assign_one(const Assignment& one);
  void assign_sources(const std::vector<Assignment>& together);
  void assign_preset(const TomlData& value);
  void assign_from(const Assignment& one);
  void assign_field(const Fields& fields, const Path& path, std::size_t depth,
                    const TomlData& value);
  void assign_option(const Assignment& one);
  void make_absolute(std::string& file, const std::filesystem::path& folder) const;
  void make_paths_absolute(const Assignment& one);
  void settle_batches(const std::map<std::string, std::string>& places);
  void hold_model(const std::map<std::string, std::string>& places);
  /// Returns what the function returns; an Error that it throws gets the place of the value.
  template <class Function>
  decltype(auto) at_place(const Function& function);
  [[noreturn]] void refuse_key(const Path& path, std::size_t depth,
                               const std::vector<std::string>& known);
  [[noreturn]] void refuse_top(const std::string& name, bool table);

  ExperimentConfig& config_;
  std::string place_;  // of the value that is assigned
};

}  // namespace ringside::runner
