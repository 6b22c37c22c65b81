// CountingDevice: a device that counts instead of computing.
#pragma once

#include <array>
#include <cstddef>
#include <functional>
#include <memory>
#include <span>

#include "core/device/cost.h"
#include "core/device/device.h"

namespace ringside {

/// Buffers have no memory, operations add up their costs (core/device/cost.h), and no time passes.
/// The ledger counts buffers as on other devices. read() gives zeros. For one thread.
class CountingDevice final : public Device, private Clock {
 public:
  CountingDevice();

  /// Floating-point operations of one class since the device was made.
  double operations(OpClass kind) const { return operations_[static_cast<std::size_t>(kind)]; }

  std::shared_ptr<Buffer> allocate(std::size_t bytes, MemoryKind kind) override;
  std::shared_ptr<Buffer> adopt(std::byte* data, std::size_t bytes, MemoryKind kind,
                                std::function<void()> release) override;
  bool has_values() const override { return false; }
  const Kernels& kernels() const override { return kernels_; }
  Mark mark() override { return {}; }
  double time(const Mark& mark) override { return mark.value; }
  void synchronize() override {}
  void write(const Tensor&, std::span<const std::byte>) override {}
  void read(const Tensor& from, std::span<std::byte> to) override;
  const Clock& clock() const override { return *this; }

 private:
  double now() const override { return 0; }

  std::array<double, op_classes> operations_{};
  Kernels kernels_;
};

}  // namespace ringside
