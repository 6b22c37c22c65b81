// A stream as an object.
#pragma once

#include <cuda_runtime.h>

#include "core/device/cuda/module/check.h"

namespace ringside::cuda {

/// Of the device that is current; runs beside all other streams. What is enqueued at its end still
/// runs.
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
