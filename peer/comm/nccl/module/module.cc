// The functions that the NCCL module exports.
#include "peer/comm/nccl/nccl_module.h"

#include "peer/comm/nccl/module/communicator.h"

extern "C" void ringside_nccl_version(std::string& out) {
  int version = 0;
  if (ncclGetVersion(&version) == ncclSuccess)
    out = fmt::format("{}.{}.{}", version / 10000, version / 100 % 100, version % 100);
}

extern "C" void ringside_nccl_make(const ringside::peer::NcclRequest& request,
                                   std::unique_ptr<ringside::Communicator>& out) {
  using namespace ringside;
  const int gpu = request.device.ordinal();
  if (const cudaError_t status = cudaSetDevice(gpu); status != cudaSuccess)
    throw Error("gpu {}: cudaSetDevice: {}", gpu, cudaGetErrorString(status));
  peer::Handle handle(request.store, peer::nccl_rank(request.group));
  handle.connect(request.device.clock(), request.timeout_s);
  out = std::make_unique<peer::NcclCommunicator>(request.device, request.store, std::move(handle),
                                                 request.timeout_s);
}
