// A device that measures how long every operation takes.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/device/cost.h"
#include "core/device/device.h"

namespace ringside {

struct TimedOp {
  OpCost cost;
  double seconds = 0;
  double before = 0;  // seconds of the host's work since the operation before, or since take_ops()
};

/// The dtype under which a cluster file keeps the operation's figures: its own for 16-bit floats,
/// fp32 for all others.
std::string figures_dtype(const OpCost& cost);

/// Passes every call on to `device`, and keeps the operations in order with their times. `device`
/// must run an operation before its kernel returns. For use by one thread.
class TimedDevice : public Device {
 public:
  explicit TimedDevice(std::unique_ptr<Device> device);
  ~TimedDevice() override;

  /// The operations that have run since the last call of take_ops().
  std::vector<TimedOp> take_ops();
  /// What the host has done since the last operation is of no operation.
  void pause() { last_end_ = device_->clock().now(); }

  std::shared_ptr<Buffer> allocate(std::size_t bytes, MemoryKind kind) override;
  std::shared_ptr<Buffer> adopt(std::byte* data, std::size_t bytes, MemoryKind kind,
                                std::function<void()> release) override;
  const Kernels& kernels() const override { return kernels_; }
  Mark mark() override { return device_->mark(); }
  double time(const Mark& mark) override { return device_->time(mark); }
  void synchronize() override { device_->synchronize(); }
  void write(const Tensor& to, std::span<const std::byte> from) override;
  void read(const Tensor& from, std::span<std::byte> to) override;
  const Clock& clock() const override { return device_->clock(); }

 private:
  std::unique_ptr<Device> device_;
  std::vector<TimedOp> ops_;
  double last_end_ = 0;
  Kernels kernels_;
};

}  // namespace ringside
