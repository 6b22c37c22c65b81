// Staging: copies between a device's memory and the host's, beside its compute.
#pragma once

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

}  // namespace ringside
