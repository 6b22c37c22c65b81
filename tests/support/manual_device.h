// A device whose clock a test sets by hand. It has memory but computes nothing.
#pragma once

#include <cstring>
#include <vector>

#include "core/device/device.h"

namespace ringside::testing {

class ManualDevice : public Device, public Clock {
 public:
  void set_time(double seconds) { now_ = seconds; }

  std::shared_ptr<Buffer> allocate(std::size_t bytes, MemoryKind kind) override {
    auto memory = std::make_shared<std::vector<std::byte>>(bytes);
    auto* data = memory->data();
    return adopt(data, bytes, kind, [memory] {});
  }
  std::shared_ptr<Buffer> adopt(std::byte* data, std::size_t bytes, MemoryKind kind,
                                std::function<void()> release) override {
    ledger().add(kind, bytes);
    return std::make_shared<Buffer>(data, bytes, kind, SymmetricAddress{},
                                    [this, kind, bytes, release = std::move(release)] {
                                      ledger().remove(kind, bytes);
                                      release();
                                    });
  }
  const Kernels& kernels() const override { return kernels_; }
  Mark mark() override { return {now_}; }
  double time(const Mark& mark) override { return mark.value; }
  void synchronize() override {}
  void write(const Tensor& to, std::span<const std::byte> from) override {
    std::memcpy(to.data<std::uint8_t>(), from.data(), from.size());
  }
  void read(const Tensor& from, std::span<std::byte> to) override {
    std::memcpy(to.data(), from.data<std::uint8_t>(), to.size());
  }
  const Clock& clock() const override { return *this; }
  double now() const override { return now_; }

 private:
  Kernels kernels_;
  double now_ = 0;
};

}  // namespace ringside::testing
