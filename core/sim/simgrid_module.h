// The name of the module that contains SimGrid, and the name of the function that the module
// exports.
#pragma once

#include <memory>

#include "core/sim/world.h"

namespace ringside::sim {

inline constexpr const char* module_name = "libringside_simgrid.so";
inline constexpr const char* module_make_world = "ringside_make_world";
using MakeWorld = void(const ClusterSpec&, std::unique_ptr<World>& out);

}  // namespace ringside::sim
