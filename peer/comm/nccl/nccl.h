// Communicator over NCCL, between GPUs of one host or of many. A module, loaded on demand.
#pragma once

#include <memory>
#include <string>

#include "core/cluster/store.h"
#include "core/comm.h"

namespace ringside::peer {

/// Collective: every rank of the group calls it. Tensors lie on the device, fp32 or bf16; sums are
/// plain ones, in NCCL's own order, so bits may differ from those of other communicators. The
/// ranks find each other through the store; `group` is a name that no other group of it has.
/// Operations run on a stream of the communicator's own; Work::wait() has later compute wait, and
/// blocks nobody. A rank that does not come, or a failure of NCCL, is noticed where the host waits
/// for the device, and thrown there as an Error that names operation and group: the communicator
/// is aborted then. Throws Error that says what to install where NCCL is not there. `timeout_s`:
/// of the initialisation, and of every operation from the moment when it could have begun. The
/// device (a cuda::CudaDevice) and the store outlive it.
std::unique_ptr<Communicator> make_nccl_communicator(Device& device, Store& store,
                                                     const std::string& group, int rank, int size,
                                                     double timeout_s);

/// NCCL's version ("2.28.9"), or empty with `cause` saying why it cannot be used.
struct NcclFound {
  std::string version, cause;
};
NcclFound look_for_nccl();

}  // namespace ringside::peer
