// Copies from and to pinned memory. Each direction has a stream of its own, other than the compute
// stream.
#pragma once

#include <functional>

#include "core/device/cuda/runtime/memory_pool.h"
#include "core/device/cuda/runtime/pinned.h"
#include "core/device/cuda/runtime/stream.h"
#include "core/device/cuda/runtime/waits.h"

namespace ringside::cuda {

/// The parts of a device that staging uses. The device must outlive the staging and the tensors of
/// all copies.
struct StagingParts {
  const CudaDevice& device;
  EventPool& events;
  PinnedCache& pinned;
  Waits& waits;
  /// Allocates a buffer of kind communication in the order of `stream`.
  std::function<std::shared_ptr<Buffer>(std::size_t bytes, cudaStream_t stream)> allocate;
};

/// Makes a staging object for the thread's current device.
std::unique_ptr<Staging> make_staging(const StagingParts& parts);

}  // namespace ringside::cuda
