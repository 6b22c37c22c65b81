// Staging, Upload: copies between a device's memory and the host's while the device computes.
#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "core/tensor/tensor.h"

namespace ringside {

/// A copy to the host that is under way.
class Outgoing {
 public:
  virtual ~Outgoing() = default;
  /// Whether the copy is complete. Does not block.
  virtual bool ready() = 0;
  /// Blocks until the copy is complete. Throws Error if the device fails.
  virtual void wait() = 0;
  /// The tensor in pinned host memory that receives the copy. The caller must not touch its
  /// elements until the copy is complete.
  virtual const Tensor& host() const = 0;
};

/// Copies between the device and the host while the device computes. For one thread at a time.
class Staging {
 public:
  virtual ~Staging() = default;
  /// Starts a copy of `tensor` to the host, after the compute enqueued so far. `tensor` must not
  /// change until the copy is complete; the copy keeps the buffer of `tensor` alive until then.
  /// Does not block.
  virtual std::unique_ptr<Outgoing> out(const Tensor& tensor) = 0;
  /// Copies `host` into a new tensor on the device (kind communication). Compute that is enqueued
  /// later sees the copied values. The caller may reuse `host` when in() returns.
  virtual Tensor in(const Tensor& host) = 0;
};

/// Fills device tensors from the host while the device computes. For one thread at a time, which
/// may be another thread than the one that computes.
class Upload {
 public:
  /// An upload must be destroyed before the tensors that it fills. Compute that is enqueued later,
  /// which may reuse the tensors' memory, waits for the copies.
  virtual ~Upload() = default;
  /// Starts a copy of `from` to `to`, which has the same size in bytes. `to` must have been
  /// allocated before the upload was made, and compute must not use it before finish(). The caller
  /// may reuse `from` when write() returns. Copies run in the order of the calls, after the compute
  /// that was enqueued when the upload was made. Blocks only if more copies are pending than fit
  /// into pinned memory.
  virtual void write(const Tensor& to, std::span<const std::byte> from) = 0;
  /// Lets all compute that is enqueued from now on see the copies. Does not block.
  virtual void finish() = 0;
};

}  // namespace ringside
