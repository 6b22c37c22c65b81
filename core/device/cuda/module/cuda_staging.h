// Copies to and from pinned memory, each way on a stream of its own beside compute.
#pragma once

#include <functional>

#include "core/device/cuda/module/memory_pool.h"
#include "core/device/cuda/module/pinned.h"
#include "core/device/cuda/module/stream.h"
#include "core/device/cuda/module/waits.h"

namespace ringside::cuda {

/// What staging uses of its device, which outlives it and every copy's tensors.
struct StagingParts {
  const CudaDevice& device;
  EventPool& events;
  PinnedCache& pinned;
  Waits& waits;
  /// A buffer of kind communication, taken in the order of the given stream.
  std::function<std::shared_ptr<Buffer>(std::size_t bytes, cudaStream_t stream)> allocate;
};

/// Of the device that is current.
std::unique_ptr<Staging> make_staging(const StagingParts& parts);

}  // namespace ringside::cuda
