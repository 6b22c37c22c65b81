// The processor of this machine.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

namespace ringside {

/// The number of cores that this process may use; none if the system does not say.
std::optional<int> allowed_cores();

/// The processor's model and its number of cores, as in "AMD EPYC, 2 cores".
std::string processor_name();

/// The value in the first line of a system file that has the form "KEY SEPARATOR value", without
/// quotes; none if the file has no such line.
std::optional<std::string> value_in(const std::filesystem::path& file, std::string_view key,
                                    char separator);

}  // namespace ringside
