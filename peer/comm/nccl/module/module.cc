// What the module with NCCL in it offers.
#include "peer/comm/nccl/nccl_module.h"

#include "peer/comm/nccl/module/communicator.h"

extern "C" void ringside_nccl_version(std::string& out) {
  int version = 0;
  if (ncclGetVersion(&version) == ncclSuccess)
    out = fmt::format("{}.{}.{}", version / 10000, version / 100 % 100, version % 100);
}

extern "C" void ringside_nccl_make(const ringside::peer::NcclGroup& group,
                                   std::unique_ptr<ringside::Communicator>& out) {
  using namespace ringside;
  const int gpu = group.device.ordinal();
  if (const cudaError_t status = cudaSetDevice(gpu); status != cudaSuccess)
    throw Error("gpu {}: cudaSetDevice: {}", gpu, cudaGetErrorString(status));
  const std::string place = fmt::format("{}: rank {} of {}", group.name, group.rank, group.size);
  peer::Handle handle(group.store, {group.name, group.rank, group.size, place});
  handle.connect(group.device.clock(), group.timeout_s);
  out = std::make_unique<peer::NcclCommunicator>(group.device, group.store, std::move(handle),
                                                 group.timeout_s);
}
