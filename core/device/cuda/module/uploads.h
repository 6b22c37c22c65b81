// Copies into new tensors, on a stream of its own beside compute.
#pragma once

#include "core/device/cuda/module/stream.h"
#include "core/device/cuda/module/transfers.h"
#include "core/device/staging.h"

namespace ringside::cuda {

/// The stream and the pinned memory that all uploads share in turn. Thread-safe.
class Uploads {
 public:
  /// For the thread's current device. The other arguments must outlive this object.
  Uploads(int ordinal, EventPool& events, PinnedCache& pinned, Waits& waits, cudaStream_t compute);

  /// Makes an upload into tensors whose memory is free once compute has done what is enqueued now.
  std::unique_ptr<Upload> make();

 private:
  class CudaUpload;

  const int ordinal_;
  EventPool& events_;
  const cudaStream_t compute_;
  Stream stream_;
  Transfers transfers_;
};

}  // namespace ringside::cuda
