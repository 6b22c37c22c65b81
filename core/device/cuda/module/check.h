// What CUDA answers, as Error.
#pragma once

#include <cuda_runtime.h>

namespace ringside::cuda {

/// Throws Error "gpu 0: <call>: <name>: <text>" where `status` is an error; the GPU is the current
/// device of the thread.
void check(cudaError_t status, const char* call);

}  // namespace ringside::cuda
