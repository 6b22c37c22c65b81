// Work of the host on values of a device, for what has no kernel.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <vector>

#include "core/device/cost.h"
#include "core/device/device.h"

namespace ringside {

/// Copies of tensors in the host's memory.
class HostValues {
 public:
  explicit HostValues(const std::vector<Tensor>& tensors);

  /// The elements of tensor `i`. `Element` has the size of the tensor's dtype: float for f32,
  /// std::int32_t for i32, std::uint8_t for u8.
  template <class Element>
  std::span<Element> of(std::size_t i) {
    return {reinterpret_cast<Element*>(bytes_[i].data()), bytes_[i].size() / sizeof(Element)};
  }
  std::span<std::byte> bytes(std::size_t i) { return bytes_[i]; }

 private:
  std::vector<std::vector<std::byte>> bytes_;
};

/// Copies `in` to the host, calls `work`, which fills `out` (zeros before), and copies `out` to the
/// device. A tensor that is changed stands in both lists. Blocks until `work` is done. All of it
/// takes time: the copies that of the device's way to its host, and the work its own; on a
/// simulated device that of `cost` on the host's processor. Without values `work` is not called.
void on_host(Device& device, const std::vector<Tensor>& in, const std::vector<Tensor>& out,
             const OpCost& cost, const std::function<void(HostValues& in, HostValues& out)>& work);

}  // namespace ringside
