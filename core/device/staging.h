// Staging, Upload: copies between a device's memory and the host's, beside its compute.
#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "core/tensor/tensor.h"

namespace ringside {

/// A copy under way to the host.
class Outgoing {
 public:
  virtual ~Outgoing() = default;
  /// Whether the copy is there; does not block.
  virtual bool ready() = 0;
  /// Blocks until it is. Throws Error if the device fails.
  virtual void wait() = 0;
  /// Of the host, pinned; belongs to the copy until it is ready.
  virtual const Tensor& host() const = 0;
};

/// For one thread at a time.
class Staging {
 public:
  virtual ~Staging() = default;
  /// A copy of `tensor` as it stands after the compute enqueued so far. `tensor` must not change
  /// before it is ready; its buffer is kept until then. Does not block.
  virtual std::unique_ptr<Outgoing> out(const Tensor& tensor) = 0;
  /// A copy on the device (kind communication) that later compute sees. `host` may be reused when
  /// the call returns.
  virtual Tensor in(const Tensor& host) = 0;
};

/// Fills tensors from the host beside compute. For one thread at a time, which need not be the one
/// that computes.
class Upload {
 public:
  /// Before the tensors are let go of. Later compute, in whose order their memory is used again,
  /// waits for what was written.
  virtual ~Upload() = default;
  /// `to` was allocated before the upload was made, and compute does not use it before finish().
  /// `from`, of the same bytes, may be reused when the call returns. Copies run in the order of the
  /// calls, from where compute was when the upload was made; blocks only where they are further
  /// behind than there is pinned memory.
  virtual void write(const Tensor& to, std::span<const std::byte> from) = 0;
  /// Compute enqueued from now on sees what was written. Does not block.
  virtual void finish() = 0;
};

}  // namespace ringside
