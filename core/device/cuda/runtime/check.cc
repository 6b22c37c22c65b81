#include "core/device/cuda/runtime/check.h"

#include "core/base/error.h"

namespace ringside::cuda {
namespace {

/// Whether a kernel caused the error. CUDA reports such errors at any later call.
bool is_of_a_kernel(cudaError_t status) {
  return status == cudaErrorIllegalAddress || status == cudaErrorMisalignedAddress ||
         status == cudaErrorLaunchFailure || status == cudaErrorLaunchTimeout;
}

}  // namespace

void check(cudaError_t status, const char* call) {
  if (status == cudaSuccess) return;
  int ordinal = 0;
  cudaGetDevice(&ordinal);
  // Clears an error that does not break the context; else the next cudaGetLastError() would return
  // it again.
  cudaGetLastError();
  throw Error("gpu {}: {}: {}: {}{}", ordinal, call, cudaGetErrorName(status),
              cudaGetErrorString(status),
              is_of_a_kernel(status) ? "; a kernel that was enqueued earlier caused this: run "
                                       "again with CUDA_LAUNCH_BLOCKING=1 to see which one"
                                     : "");
}

}  // namespace ringside::cuda
