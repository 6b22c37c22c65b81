// The processor and the memory of this machine that this process may use.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ringside {

/// The cores that this process may use, by number; none if the system does not say.
std::vector<std::int64_t> allowed_core_numbers();
/// The number of these cores, or fewer if the quota of a control group gives this process less time
/// (core/base/control_group.h); none if the system does not say.
std::optional<int> allowed_cores();
/// The bytes of memory of this machine, or fewer if a control group allows this process, and those
/// beside it in the group, no more; 0 if the system does not say.
std::int64_t allowed_memory();
/// The owner of that memory, for errors: "this machine" or "the control group of this process".
std::string owner_of_allowed_memory();

/// The processor's model and its number of cores, as in "AMD EPYC, 2 cores".
std::string processor_name();

/// Looks in a system file for the first line that begins with `key` and contains `separator`.
/// Returns what follows the separator, without quotes; none if the file has no such line.
std::optional<std::string> value_in(const std::filesystem::path& file, std::string_view key,
                                    char separator);

}  // namespace ringside
