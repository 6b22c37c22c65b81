// The cases and the sweep of a comparison.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "experiments/runner/config/config.h"

namespace ringside::runner {

/// The text behind "--set" or "--case", or a part of it, as one value for one key. Throws Error
/// that begins with `place` for text without "=" and for values that are not TOML.
Assignment parse_assignment(const std::string& text, const std::string& place);

/// The smallest and the largest world of a run whose workers come and go: "2:8". None for any other
/// text.
std::optional<std::pair<std::int64_t, std::int64_t>> world_range(const std::string& text);

/// One table [[compare.case]]. Throws Error that names file and line for a key that is unknown or
/// has a value of the wrong type. Keys and values of `set` are checked by check_cases().
CaseConfig case_of_table(const TomlElement& table, const std::filesystem::path& folder);
/// The case that "SCHEME: key=value, key=value" describes. Throws Error that begins with
/// "--case TEXT".
CaseConfig case_of_text(const std::string& text);

/// Adds one key of [compare.sweep] and its list to the experiment; a key that is already there gets
/// the new list. `path` begins within the table. A list for `world` becomes compare.worlds. Throws
/// Error that names the place for a key that cannot be swept, for an empty list and for a value
/// that is listed twice.
void add_to_sweep(Experiment& experiment, Assignment list);

/// Binds every value of the cases and of the sweep once. Throws Error for the first that cannot be
/// bound, and for an option of another scheme than its case's.
void check_cases(const Experiment& experiment);

/// Limits the experiment to the schemes and worlds of --schemes and --worlds; an empty list limits
/// nothing. The schemes replace compare.schemes, and cases of other schemes are left out. The
/// worlds replace compare.worlds and those of the file's cases, whose published figures are then
/// left out. Throws Error for a case that the command line adds, if it has worlds of its own or a
/// scheme that is left out.
void limit_to(Experiment& experiment, const std::vector<std::string>& schemes,
              const std::vector<std::int64_t>& worlds);

/// Leaves out of the comparison what only exact figures need (--quick): it has one repeat, one
/// attempt at each run, and no line of all cores.
void make_quick(Experiment& experiment);

/// The number of the sweep's combinations of values for a case of `scheme`; at most `limit` + 1.
/// Keys of other schemes' options do not count.
std::int64_t count_points(const std::vector<SweptKey>& sweep, std::string_view scheme,
                          std::int64_t limit);
/// All these combinations; the last key changes fastest. One empty combination without a sweep.
std::vector<std::vector<Assignment>> points_of(const std::vector<SweptKey>& sweep,
                                               std::string_view scheme);

/// The configuration of one case at one point of the sweep: `common`, then the case's settings,
/// then those of the point. Reads the cluster if it is another than that of `common`. Throws Error
/// that begins with the place of the value that is wrong, or with `place` if a cluster is missing.
ExperimentConfig bind_line(const ExperimentConfig& common, const std::vector<Assignment>& set,
                           const std::vector<Assignment>& point, const std::string& place);

/// Reads the cluster that device.cluster names if device.kind is "sim". Throws Error that begins
/// with `place` if no cluster is named.
void read_cluster_of(ExperimentConfig& config, const std::string& place);

}  // namespace ringside::runner
