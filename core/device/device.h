// Device: memory, a compute queue and a clock.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>

#include "core/device/kernels.h"
#include "core/device/ledger.h"
#include "core/device/staging.h"
#include "core/tensor/tensor.h"

namespace ringside {

/// Time as the device's world counts it: wall time on real devices, virtual time on simulated
/// ones. Nothing in the project asks any other clock for a timestamp.
class Clock {
 public:
  virtual ~Clock() = default;
  /// Seconds since some fixed moment; never goes back; the same origin for all ranks of a host.
  virtual double now() const = 0;
};

/// A point in a queue of a device, for the device's own time(): the moment itself, or what will
/// know it once the queue has come so far.
struct Mark {
  double value = 0;
  std::shared_ptr<void> event{};
};

/// What the ledger does not see: bytes, as the device's driver counts them. `reserved` is the most
/// that the allocator has taken for the ledger's buffers since its beginning; `outside` what is
/// gone of `capacity` now and not the allocator's: the context, libraries, other processes.
struct DeviceMemory {
  std::int64_t reserved = 0, outside = 0, capacity = 0;
};

/// What a rank computes on. Work enqueued through kernels() runs in order; on the CPU it has run
/// when the call returns. One thread at a time may use kernels() that need scratch memory; flat
/// operations, cross_entropy (see ops.h), allocate(), write(), read() and the clock are safe from
/// any thread.
class Device {
 public:
  virtual ~Device() = default;

  /// Uninitialised memory, aligned for any operation, counted in the ledger until the last view
  /// of it is gone. Kinds parameter, gradient and communication lie in the symmetric heap, which
  /// peers of one host can map. Throws Error that names the request and who holds the rest when
  /// there is not enough. The device must outlive the buffer.
  virtual std::shared_ptr<Buffer> allocate(std::size_t bytes, MemoryKind kind) = 0;

  /// Memory of the host that a library owns (a received message, say), counted in the ledger as
  /// `kind` where the device computes in the host's memory; `release` is called when the last view
  /// of it is gone.
  virtual std::shared_ptr<Buffer> adopt(std::byte* data, std::size_t bytes, MemoryKind kind,
                                        std::function<void()> release) = 0;

  /// False: buffers have no memory: nothing is computed, only counted and timed.
  virtual bool has_values() const { return true; }
  /// Whether the host goes on while the device computes, so that read() may have to wait.
  virtual bool runs_behind() const { return false; }

  virtual const Kernels& kernels() const = 0;

  /// The end of what is enqueued now, and when that was on the clock (blocks until the mark is
  /// reached).
  virtual Mark mark() = 0;
  virtual double time(const Mark& mark) = 0;
  double seconds(const Mark& from, const Mark& to) { return time(to) - time(from); }
  /// Blocks until everything enqueued has run.
  virtual void synchronize() = 0;

  /// Copies between the host and a tensor of the same byte size, in queue order; blocks until the
  /// host's side may be reused.
  virtual void write(const Tensor& to, std::span<const std::byte> from) = 0;
  virtual void read(const Tensor& from, std::span<std::byte> to) = 0;

  virtual const Clock& clock() const = 0;

  /// Copies to and from the host's memory beside compute; null where the host reads and writes the
  /// device's memory itself. The device outlives it.
  virtual std::unique_ptr<Staging> staging() { return nullptr; }
  /// For tensors that nothing enqueued so far uses; write() would have them wait for all that is
  /// enqueued by then. Null where the host is not ahead of compute: write() does as well. The
  /// device outlives it. Safe from any thread.
  virtual std::unique_ptr<Upload> upload() { return nullptr; }
  /// None where the driver counts nothing apart.
  virtual std::optional<DeviceMemory> memory() const { return {}; }

  /// For profilers: what this thread enqueues between the two belongs to `name`. Ranges of a thread
  /// nest. Nothing where no profiler knows of it.
  virtual void begin_range(const std::string& name) { static_cast<void>(name); }
  virtual void end_range() {}

  Ledger& ledger() { return ledger_; }
  const Ledger& ledger() const { return ledger_; }

  /// A new tensor in a buffer of its own.
  Tensor tensor(Shape shape, MemoryKind kind, DType dtype = DType::f32) {
    const auto bytes = static_cast<std::size_t>(shape.count()) * size_of(dtype);
    return {allocate(bytes, kind), 0, shape, dtype};
  }

 private:
  Ledger ledger_;
};

}  // namespace ringside
