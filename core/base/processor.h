// The processor of this machine.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

namespace ringside {

/// The number of cores that this process may use; none if the system does not say.
std::optional<int> allowed_cores();

/// Model and number of cores, as in "AMD EPYC, 2 cores".
std::string processor_name();

/// The value of the first line "KEY SEPARATOR value" of a file of the system, without quotes; none
/// if the file has no such line.
std::optional<std::string> value_in(const std::filesystem::path& file, std::string_view key,
                                    char separator);

}  // namespace ringside
