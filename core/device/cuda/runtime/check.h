// Conversion of CUDA's status codes to Error.
#pragma once

#include <cuda_runtime.h>

namespace ringside::cuda {

/// Throws Error "gpu 0: <call>: <name>: <text>" if `status` is an error. The GPU is the thread's
/// current device.
void check(cudaError_t status, const char* call);

}  // namespace ringside::cuda
