// Loads the module with SimGrid when a world is made. SimGrid takes some 30 MB, which ranks of real
// runs should not carry.
#include "core/sim/simgrid_module.h"

namespace ringside::sim {

void require_simgrid() { load_module<SimgridModule>(simgrid_module); }

std::unique_ptr<World> make_world(const ClusterSpec& cluster) {
  return load_module<SimgridModule>(simgrid_module).make_world(cluster);
}

}  // namespace ringside::sim
