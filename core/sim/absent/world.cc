// In place of core/sim/simgrid/world.cc where there was no SimGrid to build it with.
#include "core/sim/world.h"

#include "core/base/error.h"

namespace ringside::sim {

void require_simgrid() {
  throw Error(
      "device.kind = 'sim': this build has no SimGrid; install libsimgrid-dev (3.32 or newer) and "
      "build again: cmake --fresh, or remove the build folder, then scripts/setup");
}

std::unique_ptr<World> make_world(const ClusterSpec&) {
  require_simgrid();
  return nullptr;
}

}  // namespace ringside::sim
