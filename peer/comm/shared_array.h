// Arrays of Communicator::share().
#pragma once

#include <cstddef>
#include <memory>

#include "core/device/device.h"

namespace ringside::peer {

/// The array as the rank of this device sees it: `count` elements, which begin at `first` (null on
/// devices without values). The ledger counts one of `ranks` equal parts. The tensor keeps the
/// memory that `first` owns.
inline Tensor shared_array(Device& device, std::shared_ptr<std::byte> first, std::int64_t count,
                           int ranks, MemoryKind kind, DType dtype) {
  const std::size_t bytes = static_cast<std::size_t>(count) * size_of(dtype);
  std::byte* const data = first.get();
  const auto counted = device.adopt(data, bytes / static_cast<std::size_t>(ranks), kind,
                                    [first = std::move(first)] {});
  return {std::make_shared<Buffer>(data, bytes, kind, SymmetricAddress{}, [counted] {}), 0,
          Shape{count}, dtype};
}

}  // namespace ringside::peer
