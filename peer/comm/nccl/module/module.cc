// The functions that the NCCL module exports.
#include "peer/comm/nccl/nccl_module.h"

#include "peer/comm/nccl/module/communicator.h"

namespace ringside::peer {
namespace {

std::string version() {
  int version = 0;
  if (ncclGetVersion(&version) != ncclSuccess) return {};
  return fmt::format("{}.{}.{}", version / 10000, version / 100 % 100, version % 100);
}

std::unique_ptr<Communicator> make(const NcclRequest& request) {
  const int gpu = request.device.ordinal();
  if (const cudaError_t status = cudaSetDevice(gpu); status != cudaSuccess)
    throw Error("gpu {}: cudaSetDevice: {}", gpu, cudaGetErrorString(status));
  Handle handle(request.store, nccl_rank(request.group));
  handle.connect(request.device.clock(), request.timeout_s);
  return std::make_unique<NcclCommunicator>(request.device, request.store, std::move(handle),
                                            request.timeout_s);
}

}  // namespace
}  // namespace ringside::peer

extern "C" void ringside_module(ringside::ModuleExports* exports) {
  static const ringside::peer::NcclModule functions{.version = ringside::peer::version,
                                                    .make = ringside::peer::make};
  exports->functions = &functions;
  exports->stamp = ringside::module_stamp;
}
