// What the kernels of a GPU are made with.
#pragma once

#include <cuda_runtime.h>

#include "core/device/cuda/cuda.h"

namespace ringside::cuda {

/// Scratch memory comes from device.allocate(bytes, MemoryKind::workspace): it is stream-ordered,
/// so it may be let go of as soon as its last kernel has been enqueued. The device owns the stream
/// and the kernels, and outlives both; it is the current device of the thread that makes them, not
/// always of those that call them.
struct Context {
  CudaDevice& device;
  cudaStream_t stream;  // the compute stream
  int multiprocessors = 0;
  int major = 0;  // compute capability
  bool tf32 = false;
};

}  // namespace ringside::cuda
