#include "core/device/timed_device.h"

#include <utility>

namespace ringside {

TimedDevice::TimedDevice(std::unique_ptr<Device> device)
    : device_(std::move(device)), kernels_(device_->kernels()) {
  for_each_slot(kernels_, [this]<class Op>(const char*, Kernel<Op>& slot) {
    slot = [this, run = std::move(slot)](const Op& op) {
      const Mark begin = device_->runs_behind() ? last_end_ : end();
      run(op);
      ops_.push_back({cost(op), last_end_, begin, end()});
      last_end_ = ops_.back().end;
    };
  });
  pause();
}

TimedDevice::~TimedDevice() = default;

Mark TimedDevice::end() {
  return device_->runs_behind() ? device_->mark() : Mark{device_->clock().now()};
}

std::vector<TimedOp> TimedDevice::take_ops() {
  const auto seconds = [this](const Mark& from, const Mark& to) {
    return device_->runs_behind() ? device_->seconds(from, to) : to.value - from.value;
  };
  std::vector<TimedOp> out;
  out.reserve(ops_.size());
  for (const Recorded& op : std::exchange(ops_, {}))
    out.push_back({op.cost, seconds(op.begin, op.end), seconds(op.before, op.begin)});
  return out;
}

std::shared_ptr<Buffer> TimedDevice::allocate(std::size_t bytes, MemoryKind kind) {
  return device_->allocate(bytes, kind);
}

std::shared_ptr<Buffer> TimedDevice::adopt(std::byte* data, std::size_t bytes, MemoryKind kind,
                                           std::function<void()> release) {
  return device_->adopt(data, bytes, kind, std::move(release));
}

void TimedDevice::write(const Tensor& to, std::span<const std::byte> from) {
  device_->write(to, from);
}

void TimedDevice::read(const Tensor& from, std::span<std::byte> to) { device_->read(from, to); }

}  // namespace ringside
