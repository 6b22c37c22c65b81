// SimGrid is loaded when a world is wanted: it brings a network simulator of its own along, some
// 30 MB that the ranks of real runs need not carry.
#include <dlfcn.h>

#include <filesystem>
#include <string>

#include "core/base/error.h"
#include "core/sim/simgrid/module.h"
#include "core/sim/world.h"

namespace ringside::sim {
namespace {

/// Beside the program, or one folder up from it, as for the tests.
std::string module_file() {
  const auto folder = std::filesystem::read_symlink("/proc/self/exe").parent_path();
  const auto here = folder / module_name, above = folder.parent_path() / module_name;
  return !std::filesystem::exists(here) && std::filesystem::exists(above) ? above : here;
}

/// Loaded once and kept to the end of the process: SimGrid cannot begin again.
MakeWorld* load() {
  if (void* module = dlopen(module_file().c_str(), RTLD_NOW | RTLD_LOCAL))
    if (void* symbol = dlsym(module, module_symbol)) return reinterpret_cast<MakeWorld*>(symbol);
  const char* cause = dlerror();
  throw Error(
      "device.kind = 'sim': {}; install libsimgrid-dev (3.32 or newer), remove the build folder "
      "and "
      "build again",
      cause ? cause : "its module cannot be loaded");
}

}  // namespace

void require_simgrid() { load(); }

std::unique_ptr<World> make_world(const ClusterSpec& cluster) {
  std::unique_ptr<World> world;
  load()(cluster, world);
  return world;
}

}  // namespace ringside::sim
