#include "core/device/timed_device.h"

#include <utility>

namespace ringside {

TimedDevice::TimedDevice(std::unique_ptr<Device> device)
    : device_(std::move(device)), kernels_(device_->kernels()) {
  for_each_slot(kernels_, [this]<class Op>(const char*, Kernel<Op>& slot) {
    slot = [this, run = std::move(slot)](const Op& op) {
      const double begin = device_->clock().now();
      run(op);
      const double end = device_->clock().now();
      ops_.push_back({cost(op), end - begin, begin - last_end_});
      last_end_ = end;
    };
  });
  pause();
}

TimedDevice::~TimedDevice() = default;

std::vector<TimedOp> TimedDevice::take_ops() { return std::exchange(ops_, {}); }

std::string figures_dtype(const OpCost& cost) {
  const bool is_16 = cost.dtype == DType::bf16 || cost.dtype == DType::f16;
  return std::string(name_of(is_16 ? cost.dtype : DType::f32));
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
