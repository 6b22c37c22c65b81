// The properties of a GPU, as CUDA reports them.
#pragma once

#include "core/device/cuda/cuda.h"

namespace ringside::cuda {

/// Adds to `out` what CUDA reports, or the cause why no GPU can be used. Throws Error if a call of
/// CUDA fails.
void look(Machine& out);

/// Describes one GPU. Throws Error if this machine has no GPU `ordinal` that can run the kernels.
Gpu look_at_gpu(int ordinal);

}  // namespace ringside::cuda
