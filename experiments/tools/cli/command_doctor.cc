// ringside doctor
#include <iostream>

#include "core/base/control_group.h"
#include "core/base/error.h"
#include "core/base/module.h"
#include "core/base/processor.h"
#include "core/device/cpu/cpu_device.h"
#include "core/device/cuda/cuda.h"
#include "core/device/ledger.h"
#include "core/sim/world.h"
#include "experiments/runner/registry/registry.h"
#include "experiments/tools/cli/command.h"
#include "peer/comm/gloo/wire.h"
#include "peer/comm/nccl/communicator.h"

namespace ringside::tools::cli {
namespace {

void say(std::string_view what, const std::string& found) {
  std::cout << fmt::format("{:<10} {}\n", what, found);
}

std::string or_missing(const std::string& version) { return version.empty() ? "-" : version; }

/// The reason why simulations cannot run; empty if they can.
std::string missing_simulator() {
  try {
    sim::require_simgrid();
    return {};
  } catch (const Error& error) {
    return error.what();
  }
}

void say_gpus(const cuda::Machine& machine) {
  say("cuda", machine.cause.empty() ? "usable" : "NOT usable: " + machine.cause);
  say("", fmt::format("driver {}, runtime {}, cuBLASLt {}, cuDNN {}", or_missing(machine.driver),
                      or_missing(machine.runtime), or_missing(machine.cublaslt),
                      or_missing(machine.cudnn)));
  if (machine.built && machine.cudnn.empty())
    say("",
        "attention runs on plain kernels: install cuDNN and the headers of its frontend, and build "
        "again");
  for (std::size_t i = 0; i < machine.gpus.size(); ++i) {
    const cuda::Gpu& gpu = machine.gpus[i];
    say("", fmt::format("GPU {}: {}, {}, {} multiprocessors, compute capability {}.{}", i, gpu.name,
                        memory_text(static_cast<double>(gpu.memory)), gpu.multiprocessors,
                        gpu.major, gpu.minor));
  }
}

/// Prints the limits of the container or job in which this process runs.
void say_limits(const ControlGroup& group) {
  const auto cores = group.cores();
  const auto memory = group.memory();
  if (cores)
    say("", fmt::format("its control group has the processor time of {:.3g} cores", *cores));
  if (memory)
    say("", fmt::format("its control group is limited to {} of memory",
                        memory_text(static_cast<double>(*memory))));
}

/// Libraries of MPI are not loaded here: no process can have two of them.
void say_libraries_between_hosts() {
  const std::string gloo = peer::why_no_gloo();
  say("gloo", gloo.empty() ? "usable" : "NOT usable: " + gloo);
  for (const char* library : {"openmpi", "mpich"})
    say(library, has_module(fmt::format("libringside_{}.so", library))
                     ? "built"
                     : "NOT usable: this program was built without it");
}

int look_at_machine() {
  const std::optional<int> cores = allowed_cores();
  say("cpu", fmt::format("usable: {}{}", processor_name(),
                         cores ? fmt::format(", {} of them for this process", *cores) : ""));
  say("", "kernels: " + cpu_instructions());
  say_limits(ControlGroup());
  say_gpus(cuda::look_at_machine());
  const peer::NcclFound nccl = peer::look_for_nccl();
  say("nccl", nccl.cause.empty() ? "found: " + nccl.version : "NOT usable: " + nccl.cause);
  say_libraries_between_hosts();
  const std::string simulator = missing_simulator();
  say("sim", simulator.empty() ? "usable" : "NOT usable: " + simulator);
  std::cout << std::flush;
  return ok;
}

}  // namespace

Execute doctor_command(CommandOptions& options) {
  options.summary("what this machine has: devices, libraries, and what to install for the rest");
  options.uses_cores();
  return [](const Process&) { return look_at_machine(); };
}

}  // namespace ringside::tools::cli
