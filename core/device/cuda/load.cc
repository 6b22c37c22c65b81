#include "core/base/error.h"
#include "core/base/module.h"
#include "core/device/cuda/cuda_module.h"

namespace ringside::cuda {
namespace {

constexpr const char* how_to_build =
    "install the CUDA toolkit (12.8 or newer, with nvcc on the PATH) and cuDNN if they are "
    "missing; "
    "then run scripts/setup -DRINGSIDE_CUDA=ON";

template <class Function>
Function* load(const char* symbol) {
  return reinterpret_cast<Function*>(module_symbol(module_name, symbol));
}

}  // namespace

Machine look_at_machine() {
  Machine machine;
  machine.built = has_module(module_name);
  try {
    load<LookAtMachine>(module_look)(machine);
  } catch (const Error& error) {
    machine.cause = fmt::format("{}; {}", error.what(), how_to_build);
  }
  return machine;
}

std::unique_ptr<CudaDevice> make_cuda_device(const Options& options) {
  const Machine machine = look_at_machine();
  if (!machine.cause.empty()) throw Error("device.kind = 'cuda': {}", machine.cause);
  std::unique_ptr<CudaDevice> device;
  load<MakeDevice>(module_make)(options, device);
  return device;
}

CudaDevice& cuda_device(Device& device) {
  if (auto* gpu = dynamic_cast<CudaDevice*>(&device)) return *gpu;
  throw Error("NCCL works only between GPUs; set device.kind = \"cuda\"");
}

}  // namespace ringside::cuda
