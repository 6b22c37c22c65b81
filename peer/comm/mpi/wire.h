// Wire over MPI's messages. A module for each library of MPI, loaded on demand. The libraries
// differ in their binary interfaces: a process uses the one whose launcher (mpirun.openmpi,
// mpiexec.mpich) has started it. `library` is one of these two, not Gloo.
#pragma once

#include <memory>
#include <string>

#include "core/comm/communicator.h"
#include "core/comm/inter_host_backend.h"
#include "core/comm/store.h"
#include "peer/comm/wire.h"

namespace ringside::peer {

/// Collective: every rank of the group, each a process of its own, calls this function, and it
/// blocks until all have, at most `timeout_s`. Throws Error that names the ranks that did not come.
/// The first call of a process initialises MPI, for several threads at once. The ranks are found by
/// their numbers in MPI_COMM_WORLD, which travel through the store, and get a communicator of MPI
/// of their own. Waits poll, with yields and naps in between, because MPI has no other wait that
/// can be abandoned when the group breaks. Throws Error that says what to install if the library is
/// missing.
std::unique_ptr<Wire> make_mpi_wire(InterHostBackend library, Store& store, const Group& group,
                                    double timeout_s);

/// Initialises MPI in this process, and waits for all processes of the launcher to do the same. If
/// only some ranks make wires, the other ranks must call this function, because MPI's start waits
/// for all processes without a deadline. Throws as make_mpi_wire() does.
void begin_mpi(InterHostBackend library);

/// Ends MPI in this process, if a wire has initialised it: waits for all processes of the launcher
/// to do the same. The launcher takes a process that ends without this call as failed, and ends the
/// others. All wires have been destroyed.
void end_mpi(InterHostBackend library);

/// The reason why the library cannot be used; empty if it can.
std::string why_no_mpi(InterHostBackend library);

}  // namespace ringside::peer
