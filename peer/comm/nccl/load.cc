#include <fmt/format.h>

#include "core/base/error.h"
#include "core/base/module.h"
#include "peer/comm/nccl/nccl_module.h"

namespace ringside::peer {
namespace {

template <class Function>
Function* load(const char* symbol) {
  try {
    return reinterpret_cast<Function*>(module_symbol(nccl_module_name, symbol));
  } catch (const Error& error) {
    throw Error(
        "NCCL: {}; install the CUDA toolkit and NCCL (2.23 or newer) if they are missing, then run "
        "scripts/setup -DRINGSIDE_CUDA=ON",
        error.what());
  }
}

}  // namespace

std::unique_ptr<Communicator> make_nccl_communicator(Device& device, Store& store,
                                                     const Group& group, double timeout_s) {
  std::unique_ptr<Communicator> communicator;
  load<MakeNccl>(nccl_module_make)({cuda::cuda_device(device), store, group, timeout_s},
                                   communicator);
  return communicator;
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
    load<NcclVersion>(nccl_module_version)(found.version);
  } catch (const Error& error) {
    found.cause = error.what();
  }
  return found;
}

}  // namespace ringside::peer
