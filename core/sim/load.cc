// Loads the module with SimGrid when a world is made. SimGrid takes some 30 MB, which ranks of real
// runs should not carry.
#include "core/base/error.h"
#include "core/base/module.h"
#include "core/sim/simgrid_module.h"
#include "core/sim/world.h"

namespace ringside::sim {
namespace {

MakeWorld* load() {
  try {
    return reinterpret_cast<MakeWorld*>(module_symbol(module_name, module_make_world));
  } catch (const Error& error) {
    throw Error(
        "device.kind = 'sim': {}; install libsimgrid-dev (3.32 or newer), remove the build folder "
        "and build again",
        error.what());
  }
}

}  // namespace

void require_simgrid() { load(); }

std::unique_ptr<World> make_world(const ClusterSpec& cluster) {
  std::unique_ptr<World> world;
  load()(cluster, world);
  return world;
}

}  // namespace ringside::sim
