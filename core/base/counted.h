// Numbers with their nouns, for messages and tables.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <string>
#include <string_view>

namespace ringside {

/// "1 rank", "4 ranks"; `many` is what follows the noun: "es" for "4 micro-batches".
inline std::string counted(std::int64_t count, std::string_view noun, std::string_view many = "s") {
  return fmt::format("{} {}{}", count, noun, count == 1 ? "" : many);
}

}  // namespace ringside
