// Stream: owns a CUDA stream.
#pragma once

#include <cuda_runtime.h>

#include "core/device/cuda/runtime/check.h"

namespace ringside::cuda {

/// A stream of the thread's current device, which does not wait for other streams. Work that is
/// still enqueued when the object is destroyed runs nevertheless.
class Stream {
 public:
  Stream() {
    check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
  }
  ~Stream() { cudaStreamDestroy(stream_); }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  cudaStream_t get() const { return stream_; }

 private:
  cudaStream_t stream_ = nullptr;
};

}  // namespace ringside::cuda
