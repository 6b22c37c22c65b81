// Communicator over NCCL, between GPUs of one host or of many. A module, loaded on demand.
#pragma once

#include <memory>
#include <string>

#include "core/comm/communicator.h"
#include "core/comm/store.h"

namespace ringside::peer {

/// Collective: every rank of the group calls it, and blocks until all are connected. Tensors lie on
/// the device; sums are of fp32, bf16 or fp16, plain ones in NCCL's own order, so bits may differ
/// from those of other communicators; what is only moved may have any type. The ranks find each
/// other through the store.
///
/// Operations run on a stream of the communicator's own; Work::wait() has later compute wait, and
/// blocks nobody but where ranks meet for the first time: the first collective, and the wait for
/// the first message from one rank to another, block until the others come. What a message could
/// not begin with then is done by later calls, and while the host waits for the device.
///
/// A rank that does not come, or a failure of NCCL, is noticed in Work::wait() and where the host
/// waits for the device, and thrown there as an Error that names operation, group and rank: the
/// communicator is aborted then, and every later call of it throws the same. `timeout_s`: of the
/// beginning, of every operation from the moment when it could have begun, and of the end (the
/// destructor waits for the other ranks' unless there was an error). Throws Error that says what to
/// install where NCCL is not there. The device (a cuda::CudaDevice) and the store outlive it.
std::unique_ptr<Communicator> make_nccl_communicator(Device& device, Store& store,
                                                     const Group& group, double timeout_s);

/// NCCL's version ("2.28.9"), or empty with `cause` saying why it cannot be used.
struct NcclFound {
  std::string version, cause;
};
NcclFound look_for_nccl();

}  // namespace ringside::peer
