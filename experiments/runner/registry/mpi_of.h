// Runs whose ranks communicate over a library between hosts, MPI above all.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/comm/store.h"
#include "core/plan/run_plan.h"
#include "peer/comm/mpi/wire.h"

namespace ringside::runner {

/// The MPI by which ranks of the run reach each other between hosts; none for any other run.
std::optional<InterHostBackend> mpi_of(const RunPlan& plan);

/// Whether ranks that have ended well also call MPI_Finalize; not with MPICH. In MPI_Finalize MPICH
/// over UCX waits for the connections that it closes, and then for the other processes, but serves
/// no connection meanwhile. A process that is still connecting to it then waits for ever. So ranks
/// of MPICH just end after their groups, and the process that started the launcher ends that too.
bool ends_with_ranks(InterHostBackend library);

/// Throws Error if a run cannot have its library between hosts: this build has no module for its
/// MPI, the run is to go on when a worker is killed, which no MPI does, or the library is to add up
/// for ranks that all share a host.
void check_libraries(const std::vector<RunPlan>& runs);

/// The first action of a rank's process, and the last one before it ends well: with MPI all ranks
/// do both together, also those that never use it. MPI waits for hosts that cannot reach each other
/// without a deadline, so a rank that has entered sets entered_mpi_key(). Throw Error.
void enter_mpi(const RunPlan& plan, int rank, Store& store);
std::string entered_mpi_key(int rank);
void leave_mpi(const RunPlan& plan);

}  // namespace ringside::runner
