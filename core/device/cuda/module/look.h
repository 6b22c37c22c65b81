// The properties of a GPU, as CUDA reports them.
#pragma once

#include "core/device/cuda/cuda.h"

namespace ringside::cuda {

/// Describes one GPU. Throws Error if this machine has no GPU `ordinal` that can run the kernels.
Gpu look_at_gpu(int ordinal);

}  // namespace ringside::cuda
