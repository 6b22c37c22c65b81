// The processor of this machine.
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
/// How many these are; none if the system does not say.
std::optional<int> allowed_cores();

/// The processor's model and its number of cores, as in "AMD EPYC, 2 cores".
std::string processor_name();

/// Looks in a system file for the first line that begins with `key` and contains `separator`.
/// Returns what follows the separator, without quotes; none if the file has no such line.
std::optional<std::string> value_in(const std::filesystem::path& file, std::string_view key,
                                    char separator);

}  // namespace ringside
