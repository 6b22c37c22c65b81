// The context that all kernels of a GPU share.
#pragma once

#include <cuda_runtime.h>

#include "core/device/cuda/cuda.h"

namespace ringside::cuda {

/// Scratch memory comes from device.allocate(bytes, MemoryKind::workspace). It is stream-ordered:
/// it may be released as soon as the last kernel that uses it has been enqueued. The device owns
/// the stream and the kernels and outlives both. It is CUDA's current device on the thread that
/// makes the kernels, but not always on the threads that call them.
struct Context {
  CudaDevice& device;
  cudaStream_t stream;  // the compute stream
  int multiprocessors = 0;
  int major = 0;  // compute capability
  bool tf32 = false;
};

}  // namespace ringside::cuda
