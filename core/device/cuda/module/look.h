// What CUDA says about a machine.
#pragma once

#include "core/device/cuda/cuda.h"

namespace ringside::cuda {

/// Throws Error if `ordinal` is no GPU of this machine that the kernels can run on.
Gpu look_at_gpu(int ordinal);

}  // namespace ringside::cuda
