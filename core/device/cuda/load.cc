#include "core/base/error.h"
#include "core/device/cuda/cuda_module.h"

namespace ringside::cuda {

Machine look_at_machine() {
  Machine machine;
  machine.built = has_module(cuda_module.file);
  try {
    load_module<CudaModule>(cuda_module).look(machine);
  } catch (const std::exception& error) {
    machine.cause = error.what();
  }
  return machine;
}

std::unique_ptr<CudaDevice> make_cuda_device(const Options& options) {
  const Machine machine = look_at_machine();
  if (!machine.cause.empty()) throw Error("device.kind = 'cuda': {}", machine.cause);
  return load_module<CudaModule>(cuda_module).make(options);
}

CudaDevice& cuda_device(Device& device) {
  if (auto* gpu = dynamic_cast<CudaDevice*>(&device)) return *gpu;
  throw Error("NCCL works only between GPUs; set device.kind = \"cuda\"");
}

}  // namespace ringside::cuda
