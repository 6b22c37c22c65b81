// The module with the CUDA device: its name and its functions.
#pragma once

#include "core/base/module.h"
#include "core/device/cuda/cuda.h"

namespace ringside::cuda {

struct CudaModule {
  /// Fills `out`, as look_at_machine() says, but for `built`.
  void (*look)(Machine& out);
  std::unique_ptr<CudaDevice> (*make)(const Options& options);
};

inline const Module cuda_module{
    "libringside_cuda.so", "",
    "install the CUDA toolkit (12.8 or newer, with nvcc on the PATH) and cuDNN if they are "
    "missing; then run scripts/setup -DRINGSIDE_CUDA=ON"};

}  // namespace ringside::cuda
