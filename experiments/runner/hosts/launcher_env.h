// The variables by which a launcher (mpirun, srun, torchrun, a Kubernetes operator) tells a process
// its place in a job.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace ringside::runner {

/// The place of a process among those that a launcher started together.
struct LauncherEnv {
  int rank = 0, size = 1;
  /// The number of a run's ranks that the process may start at once, unless `slots_as` is set, as
  /// torchrun allows: "cpu" (one for each core), "gpu" (one for each GPU) or "auto" (for each GPU,
  /// or for each core where there is none).
  int slots = 1;
  std::string slots_as{};
  /// The host of rank 0, as the launcher names it: a name or an IPv4 address; empty if the launcher
  /// does not say. Open MPI gives all addresses of a host, separated by commas.
  std::string leader{};
  int port = 0;                  // on which rank 0 listens; 0 if the launcher does not say
  std::string told_by{};         // the variables with the rank, for tables and errors
  std::string leader_told_by{};  // the variable with `leader`
  bool operator==(const LauncherEnv&) const = default;
};

/// The place that the environment ("NAME=value") describes; none for a process that no launcher
/// started, or that was started alone. Of several nested launchers the innermost counts: the one
/// whose variables come first in this list:
/// - RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT (torchrun, or by hand). torchrun itself listens
///   on MASTER_PORT (TORCHELASTIC_USE_AGENT_STORE), so rank 0 takes the next port;
/// - PET_NODE_RANK, PET_NNODES, PET_NPROC_PER_NODE, PET_MASTER_ADDR and PET_MASTER_PORT (the
///   training operator of Kubernetes): a process a host, which starts so many ranks; the only node
///   of a job needs no PET_NODE_RANK;
/// - OMPI_COMM_WORLD_RANK and _SIZE (Open MPI), PMI_RANK and PMI_SIZE (MPICH, Intel MPI, Cray);
/// - SLURM_PROCID and SLURM_STEP_NUM_TASKS (srun; a batch script alone has no such step).
/// MASTER_ADDR and MASTER_PORT count for all of them. Throws Error that names a variable that is
/// missing, wrong or out of range, and for a range of nodes (PET_NNODES = 1:4), between whose ends
/// torchrun may change the job's size while it runs.
std::optional<LauncherEnv> launcher_env_of(const std::vector<std::string>& environment);

}  // namespace ringside::runner
