// Copies from the host into new tensors, on a stream other than the compute stream.
#pragma once

#include "core/device/cuda/runtime/stream.h"
#include "core/device/cuda/runtime/transfers.h"
#include "core/device/staging.h"

namespace ringside::cuda {

/// Makes uploads, which all share one stream and its pinned memory. Thread-safe.
class Uploads {
 public:
  /// For the thread's current device. The other arguments must outlive this object.
  Uploads(int ordinal, EventPool& events, PinnedCache& pinned, Waits& waits, cudaStream_t compute);

  /// Makes an upload. Its copies wait for the compute that is enqueued now, which may still use the
  /// memory that they write to.
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
