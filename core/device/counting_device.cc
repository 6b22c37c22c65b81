#include "core/device/counting_device.h"

#include <algorithm>
#include <string_view>
#include <utility>

namespace ringside {

CountingDevice::CountingDevice() {
  for_each_slot(kernels_, [this]<class Op>(std::string_view, Kernel<Op>& slot) {
    slot = [this](const Op& op) {
      const OpCost of_op = cost(op);
      operations_[static_cast<std::size_t>(of_op.kind)] += of_op.operations;
    };
  });
}

std::shared_ptr<Buffer> CountingDevice::allocate(std::size_t bytes, MemoryKind kind) {
  return adopt(nullptr, bytes, kind, {});
}

std::shared_ptr<Buffer> CountingDevice::adopt(std::byte* data, std::size_t bytes, MemoryKind kind,
                                              std::function<void()> release) {
  ledger().add(kind, bytes);
  return std::make_shared<Buffer>(data, bytes, kind, SymmetricAddress{},
                                  [this, bytes, kind, release = std::move(release)] {
                                    if (release) release();
                                    ledger().remove(kind, bytes);
                                  });
}

void CountingDevice::read(const Tensor&, std::span<std::byte> to) {
  std::fill(to.begin(), to.end(), std::byte{0});
}

}  // namespace ringside
