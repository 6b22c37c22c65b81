// Communicator over NCCL, between GPUs of one host or of many. A module, loaded on demand.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/comm/communicator.h"
#include "core/comm/store.h"

namespace ringside::peer {

/// Collective: every rank of the group calls this function, and it blocks until all are connected.
/// Tensors lie on the device. Sums are of fp32, bf16 or fp16 and run in NCCL's own order, so their
/// bits may differ from those of other communicators; operations that only move data take any
/// dtype. The ranks find each other through the store.
///
/// Operations run on a stream of the communicator's own. Work::wait() makes later compute wait and
/// does not block the host, except where ranks meet for the first time: the first collective, and
/// the wait for the first message from one rank to another, block until the other ranks come. A
/// message that cannot be launched yet is launched by later calls, or while the host waits for the
/// device.
///
/// Work::wait(), and every place where the host waits for the device, notice a rank that does not
/// come or a failure of NCCL. They abort the communicator and throw an Error that names operation,
/// group and rank; every later call throws the same Error. `timeout_s` limits how long the ranks
/// may take to connect, how long an operation may take from the moment when it could begin, and how
/// long the destructor waits for the destructors of the other ranks (not at all after an error).
/// Throws Error that says what to install if NCCL is missing. The device (a cuda::CudaDevice) and
/// the store outlive the communicator.
std::unique_ptr<Communicator> make_nccl_communicator(Device& device, Store& store,
                                                     const Group& group, double timeout_s);

/// Variables ("NAME=VALUE") for the process of a rank that shares its GPU with other ranks, which
/// NCCL refuses unless they seem to live on several hosts: each rank seems to have a host of its
/// own.
std::vector<std::string> nccl_environment_of_shared_gpu(int rank);

/// NCCL's version ("2.28.9"), or an empty version and a `cause` that says why NCCL cannot be used.
struct NcclFound {
  std::string version, cause;
};
NcclFound look_for_nccl();

}  // namespace ringside::peer
