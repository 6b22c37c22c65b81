// A device that measures how long every operation takes.
#pragma once

#include <memory>
#include <vector>

#include "core/device/cost.h"
#include "core/device/device.h"

namespace ringside {

struct TimedOp {
  OpCost cost;
  double seconds = 0;
  double before = 0;  // seconds of the host's work since the operation before, or since pause()
};

/// Passes every call on to `device`, and keeps the operations in order with their times. On a
/// device that runs behind the host, an operation takes from the end of the operation before it
/// until its own end in the device's queue: the host's time counts only where the device waited for
/// it. The host does not wait for such a device before take_ops(). For use by one thread.
class TimedDevice : public Device {
 public:
  explicit TimedDevice(std::unique_ptr<Device> device);
  ~TimedDevice() override;

  /// The number of operations that have been called since the last take_ops().
  std::size_t recorded() const { return ops_.size(); }
  /// Returns these operations. Blocks until the device has run them.
  std::vector<TimedOp> take_ops();
  /// Marks the end of the last operation: the time since then counts for none.
  void pause() { last_end_ = end(); }

  std::shared_ptr<Buffer> allocate(std::size_t bytes, MemoryKind kind) override;
  std::shared_ptr<Buffer> adopt(std::byte* data, std::size_t bytes, MemoryKind kind,
                                std::function<void()> release) override;
  bool has_values() const override { return device_->has_values(); }
  bool runs_behind() const override { return device_->runs_behind(); }
  const Kernels& kernels() const override { return kernels_; }
  Mark mark() override { return device_->mark(); }
  double time(const Mark& mark) override { return device_->time(mark); }
  void synchronize() override { device_->synchronize(); }
  void write(const Tensor& to, std::span<const std::byte> from) override;
  void read(const Tensor& from, std::span<std::byte> to) override;
  const Clock& clock() const override { return device_->clock(); }
  std::unique_ptr<Staging> staging() override { return device_->staging(); }
  std::unique_ptr<Upload> upload() override { return device_->upload(); }
  std::optional<DeviceMemory> memory() const override { return device_->memory(); }
  void begin_step(std::int64_t step) override { device_->begin_step(step); }
  void host_work(const OpCost& cost, const std::function<void()>& work) override {
    device_->host_work(cost, work);
  }
  void take_instead(double seconds, const std::function<void()>& work) override {
    device_->take_instead(seconds, work);
  }
  void pass_copy(Copied way, std::int64_t bytes) override { device_->pass_copy(way, bytes); }

 private:
  struct Recorded {
    OpCost cost;
    Mark before, begin, end;  // `before`: the end of the operation before it, or pause()
  };
  /// Now, or, on a device that runs behind, the time at which it will have done what is enqueued so
  /// far.
  Mark end();

  std::unique_ptr<Device> device_;
  std::vector<Recorded> ops_;
  Mark last_end_;
  Kernels kernels_;
};

}  // namespace ringside
