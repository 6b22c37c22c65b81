// The module with SimGrid: its name and its functions.
#pragma once

#include <memory>

#include "core/base/module.h"
#include "core/sim/world.h"

namespace ringside::sim {

struct SimgridModule {
  std::unique_ptr<World> (*make_world)(const ClusterSpec& cluster);
};

inline const Module simgrid_module{"libringside_simgrid.so", "device.kind = 'sim'",
                                   "install libsimgrid-dev (3.32 or newer), remove the build "
                                   "folder and build again"};

}  // namespace ringside::sim
