// The libraries that carry messages between hosts.
#pragma once

#include <cstdint>
#include <string_view>

#include "core/base/named_enum.h"

namespace ringside {

enum class InterHostBackend : std::uint8_t { gloo, openmpi, mpich };
inline constexpr std::string_view between_names[] = {"gloo", "openmpi", "mpich"};
constexpr EnumNames names_of(InterHostBackend) { return between_names; }

}  // namespace ringside
