// Device: memory, a compute queue and a clock.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "core/device/kernels.h"
#include "core/device/ledger.h"
#include "core/device/staging.h"
#include "core/tensor/tensor.h"

namespace ringside {

struct OpCost;

/// The device's time: wall time on real devices, virtual time on simulated ones. Every timestamp in
/// the project comes from a Clock.
class Clock {
 public:
  virtual ~Clock() = default;
  /// Seconds since some fixed moment, which is the same for all ranks of a host. Never decreases.
  virtual double now() const = 0;
};

/// A point in a queue of a device; Device::time() tells when the queue reached the point. Holds
/// either that time, or an object that will know the time.
struct Mark {
  double value = 0;
  std::shared_ptr<void> event{};
};

/// The memory that the device's driver reports, in bytes; the ledger counts only the buffers.
/// `reserved` is the most that the allocator has ever taken from the driver for the ledger's
/// buffers. `outside` is the part of `capacity` that is in use now and was not taken by the
/// allocator: the CUDA context, libraries, other processes.
struct DeviceMemory {
  std::int64_t reserved = 0, outside = 0, capacity = 0;
};

/// The device on which a rank computes. Operations that are enqueued through kernels() run in
/// order; on the CPU an operation has run when the call returns. Flat operations, cross_entropy
/// (see ops.h), allocate(), write(), read() and the clock are thread-safe. All other operations may
/// need the device's scratch memory: only one thread at a time may enqueue them.
class Device {
 public:
  virtual ~Device() = default;

  /// Returns uninitialised memory, aligned for any operation. The ledger counts the buffer until
  /// its last owner lets go of it. Buffers of the kinds parameter, gradient and communication lie
  /// in the symmetric heap, which peers on the same host can map. If there is not enough memory,
  /// throws Error that names the request and how much memory each kind holds. The device must
  /// outlive the buffer.
  virtual std::shared_ptr<Buffer> allocate(std::size_t bytes, MemoryKind kind) = 0;

  /// Wraps memory of the host that a library owns (for example a received message). The ledger
  /// counts it as `kind` if the device computes in the host's memory; if that is then more than the
  /// device has, throws Error as allocate() does. `release` is called when the buffer's last owner
  /// lets go of it.
  virtual std::shared_ptr<Buffer> adopt(std::byte* data, std::size_t bytes, MemoryKind kind,
                                        std::function<void()> release) = 0;

  /// False on a device whose buffers have no memory: operations are only counted and timed.
  virtual bool has_values() const { return true; }
  /// Whether the device computes while the host continues, so that read() may have to wait.
  virtual bool runs_behind() const { return false; }

  virtual const Kernels& kernels() const = 0;

  /// mark() records the end of everything enqueued so far. time() blocks until the device has
  /// reached the mark, and returns the time at which it did, on the device's clock.
  virtual Mark mark() = 0;
  virtual double time(const Mark& mark) = 0;
  double seconds(const Mark& from, const Mark& to) { return time(to) - time(from); }
  /// Blocks until everything enqueued so far has run.
  virtual void synchronize() = 0;

  /// Copy between the host and a tensor of the same size in bytes, in queue order. Both block until
  /// the caller may use the host's memory again.
  virtual void write(const Tensor& to, std::span<const std::byte> from) = 0;
  virtual void read(const Tensor& from, std::span<std::byte> to) = 0;

  virtual const Clock& clock() const = 0;

  /// Makes an object that copies to and from the host's memory while the device computes. Returns
  /// null on devices whose memory the host reads and writes directly. The device must outlive the
  /// object.
  virtual std::unique_ptr<Staging> staging() { return nullptr; }
  /// Makes an object that fills tensors while the device computes. Unlike write(), its copies do
  /// not wait for operations that are enqueued after this call. No operation enqueued so far may
  /// use these tensors. Returns null on devices whose host waits for compute anyway; use write()
  /// there. The device must outlive the object. Thread-safe.
  virtual std::unique_ptr<Upload> upload() { return nullptr; }
  /// The driver's report of memory; empty on devices whose driver has none.
  virtual std::optional<DeviceMemory> memory() const { return {}; }

  /// Marks the beginning of a training step. A simulated device draws a new speed for the step
  /// (ClusterSpec::jitter), and waits for the step's samples and for the host's work where the plan
  /// has some. Real devices ignore this.
  virtual void begin_step(std::int64_t step) { static_cast<void>(step); }

  /// Does work of the host that is part of a step, such as choosing what to send. A real device
  /// just calls `work`, at once and on this thread. A simulated one lets the time of `cost` pass on
  /// the host's CPU, after everything enqueued so far; without values it does not call `work`.
  virtual void host_work(const OpCost& cost, const std::function<void()>& work) {
    static_cast<void>(cost);
    work();
  }

  /// Does work whose time on a simulated device is stated: there so many seconds pass, and then the
  /// work is done, whose operations take no time. A real device just calls `work`, on this thread.
  virtual void take_instead(double seconds, const std::function<void()>& work) {
    static_cast<void>(seconds);
    work();
  }

  /// Lets the time pass that a copy of so many bytes between a simulated device and its host takes;
  /// its write() and read() take none. On a real device the copies themselves have taken it.
  enum class Copied : std::uint8_t { to_host, to_device };
  virtual void pass_copy(Copied way, std::int64_t bytes) {
    static_cast<void>(way), static_cast<void>(bytes);
  }

  /// For profilers: operations that this thread enqueues between begin_range() and end_range() are
  /// shown under `name`. Ranges of a thread nest. Without a profiler nothing happens.
  virtual void begin_range(const std::string& name) { static_cast<void>(name); }
  virtual void end_range() {}

  Ledger& ledger() { return ledger_; }
  const Ledger& ledger() const { return ledger_; }

  /// Allocates a new tensor with a buffer of its own.
  Tensor tensor(Shape shape, MemoryKind kind, DType dtype = DType::f32) {
    const auto bytes = static_cast<std::size_t>(shape.count()) * size_of(dtype);
    return {allocate(bytes, kind), 0, shape, dtype};
  }

 private:
  Ledger ledger_;
};

}  // namespace ringside
