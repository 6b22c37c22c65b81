#include "core/device/cpu/cpu_device.h"

#include <cstring>

#include "core/base/error.h"
#include "core/base/error_text.h"
#include "core/base/processor.h"
#include "core/device/cpu/arena.h"
#include "core/device/cpu/cpu_kernels.h"
#include "core/device/steady_clock.h"

namespace ringside {
namespace {

bool is_symmetric(MemoryKind kind) {
  return kind == MemoryKind::parameter || kind == MemoryKind::gradient ||
         kind == MemoryKind::communication;
}

class CpuDevice final : public Device {
 public:
  CpuDevice(int threads, bool all_symmetric)
      : all_symmetric_(all_symmetric), kernels_(cpu::make_kernels({*this, threads})) {}

  std::shared_ptr<Buffer> allocate(std::size_t bytes, MemoryKind kind) override {
    Arena& arena = all_symmetric_ || is_symmetric(kind) ? symmetric_ : private_;
    const Arena::Block block = take(arena, bytes, kind);
    ledger().add(kind, bytes);
    auto release = [this, &arena, block, bytes, kind] {
      arena.free(block);
      ledger().remove(kind, bytes);
    };
    return std::make_shared<Buffer>(block.data, bytes, kind, block.address, std::move(release));
  }

  std::shared_ptr<Buffer> adopt(std::byte* data, std::size_t bytes, MemoryKind kind,
                                std::function<void()> release) override {
    if (exceeds_capacity(bytes)) refuse(bytes, kind, capacity_text());
    ledger().add(kind, bytes);
    auto give_back = [this, bytes, kind, release = std::move(release)] {
      if (release) release();
      ledger().remove(kind, bytes);
    };
    return std::make_shared<Buffer>(data, bytes, kind, SymmetricAddress{}, std::move(give_back));
  }

  const Kernels& kernels() const override { return kernels_; }

  Mark mark() override { return {clock_.now()}; }
  double time(const Mark& mark) override { return mark.value; }
  void synchronize() override {}

  void write(const Tensor& to, std::span<const std::byte> from) override {
    check_size("write", to, from.size());
    if (!from.empty()) std::memcpy(to.data<std::uint8_t>(), from.data(), from.size());
  }
  void read(const Tensor& from, std::span<std::byte> to) override {
    check_size("read", from, to.size());
    if (!to.empty()) std::memcpy(to.data(), from.data<std::uint8_t>(), to.size());
  }

  const Clock& clock() const override { return clock_; }

 private:
  Arena::Block take(Arena& arena, std::size_t bytes, MemoryKind kind) {
    if (exceeds_capacity(bytes)) refuse(bytes, kind, capacity_text());
    try {
      return arena.allocate(bytes);
    } catch (const Error& error) {
      refuse(bytes, kind, error.what() + limit_hint(error.what()));
    }
  }

  /// Linux promises more memory than the machine has, and later kills the process that uses it. So
  /// a request that cannot fit is refused.
  bool exceeds_capacity(std::size_t bytes) const {
    return static_cast<double>(ledger().current().total()) + static_cast<double>(bytes) > capacity_;
  }
  std::string capacity_text() const {
    return fmt::format("{} has {}", owner_of_allowed_memory(), memory_text(capacity_));
  }
  [[noreturn]] void refuse(std::size_t bytes, MemoryKind kind, const std::string& cause) const {
    throw out_of_memory("cpu", bytes, kind, ledger().current(), cause);
  }

  static void check_size(const char* what, const Tensor& tensor, std::size_t host_bytes) {
    if (tensor.bytes() != host_bytes)
      throw Error(
          "cpu: {}: the host's memory has {} bytes, but the tensor of shape {} has {} bytes; the "
          "sizes must be equal",
          what, host_bytes, tensor.shape().text(), tensor.bytes());
  }

  const bool all_symmetric_;
  const double capacity_ = static_cast<double>(allowed_memory());
  Arena symmetric_{Arena::Backing::memfd};
  Arena private_{Arena::Backing::anonymous};
  SteadyClock clock_;
  Kernels kernels_;
};

}  // namespace

std::unique_ptr<Device> make_cpu_device(int threads, bool all_symmetric) {
  if (threads < 1) throw Error("cpu: {} threads; give at least 1", threads);
  return std::make_unique<CpuDevice>(threads, all_symmetric);
}

}  // namespace ringside
