#include "core/sim/simgrid/engine.h"

#include <xbt/log.h>

#include <string>
#include <xbt/config.hpp>

#include "core/base/error.h"

namespace ringside::sim {

namespace s4u = simgrid::s4u;

Engine::~Engine() {
  if (!over_) run();  // SimGrid frees its objects only at the end of a run
}

void Engine::run() {
  if (over_) throw Error("a simulated world can run only once");
  engine_->run();
  over_ = true;
}

std::unique_ptr<s4u::Engine> Engine::start() {
  if (s4u::Engine::has_instance())
    throw Error(
        "a process can have one simulated world at a time; end the first one before making a "
        "second");
  xbt_log_control_set("root.thres:critical ker_engine.app:file:/dev/null");
  // Actors run on threads or on a lighter kind of context. The choice is fixed for the whole
  // process when its first engine is made.
  std::string arguments[] = {"ringside", "--cfg=contexts/factory:" RINGSIDE_SIMGRID_CONTEXTS,
                             "--cfg=contexts/stack-size:1024"};
  char* argv[] = {arguments[0].data(), arguments[1].data(), arguments[2].data(), nullptr};
  int argc = 3;
  auto engine = std::make_unique<s4u::Engine>(&argc, argv);
  // Settings are valid for the whole process, and SimGrid refuses to set them twice.
  if (!simgrid::config::is_default("network/model")) return engine;
  for (const char* setting : {"network/model:CM02", "network/TCP-gamma:0", "network/crosstraffic:0",
                              // Two times that differ by less than surf/precision are one moment.
                              // Shares of links and cores below maxmin/precision count as zero.
                              "surf/precision:1e-10", "maxmin/precision:1e-9"})
    s4u::Engine::set_config(std::string(setting));
  return engine;
}

}  // namespace ringside::sim
