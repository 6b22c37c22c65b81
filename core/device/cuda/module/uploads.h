// Copies into new tensors, on a stream of their own beside compute.
#pragma once

#include "core/device/cuda/module/stream.h"
#include "core/device/cuda/module/transfers.h"
#include "core/device/staging.h"

namespace ringside::cuda {

/// Pinned memory and a stream for uploads, which share them in turn. Thread-safe.
class Uploads {
 public:
  /// Of the device that is current. The others outlive it.
  Uploads(int ordinal, EventPool& events, PinnedCache& pinned, Waits& waits, cudaStream_t compute);

  /// Of tensors whose memory compute has left when it has done what is enqueued now.
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
