#include <fmt/format.h>

#include "core/base/error.h"
#include "peer/comm/nccl/nccl_module.h"

namespace ringside::peer {

std::unique_ptr<Communicator> make_nccl_communicator(Device& device, Store& store,
                                                     const Group& group, double timeout_s) {
  return load_module<NcclModule>(nccl_module)
      .make({cuda::cuda_device(device), store, group, timeout_s});
}

std::vector<std::string> nccl_environment_of_shared_gpu(int rank) {
  return {fmt::format("NCCL_HOSTID=ringside-{}", rank),
          "NCCL_SOCKET_IFNAME=lo",
          "NCCL_NET=Socket",
          "NCCL_IB_DISABLE=1",
          "NCCL_MNNVL_ENABLE=0",
          "NCCL_MAX_NCHANNELS=2"};
}

NcclFound look_for_nccl() {
  NcclFound found;
  try {
    found.version = load_module<NcclModule>(nccl_module).version();
  } catch (const Error& error) {
    found.cause = error.what();
  }
  return found;
}

}  // namespace ringside::peer
