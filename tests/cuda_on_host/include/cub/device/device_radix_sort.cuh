// CUB's radix sort on the host.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <limits>
#include <numeric>
#include <type_traits>
#include <vector>

#include "cuda_runtime.h"

namespace cub {
namespace detail {

template <class Key, class Value>
void sort_pairs(void* storage, std::size_t storage_bytes, const Key* keys_in, Key* keys_out,
                const Value* values_in, Value* values_out, std::size_t count, int begin_bit,
                int end_bit) {
  std::memset(storage, 0xff, storage_bytes);  // other users of this memory shall notice
  // Keys are compared as unsigned numbers. The flipped sign bit puts negative keys first.
  using Digits = std::make_unsigned_t<Key>;
  constexpr int width = std::numeric_limits<Digits>::digits;
  constexpr Digits flip = std::is_signed_v<Key> ? Digits{1} << (width - 1) : Digits{0};
  const auto digits = [&](std::size_t i) {
    const Digits mask = static_cast<Digits>(~Digits{0}) >> (width - (end_bit - begin_bit));
    return static_cast<Digits>((static_cast<Digits>(keys_in[i]) ^ flip) >> begin_bit) & mask;
  };
  std::vector<std::size_t> order(count);
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return digits(a) < digits(b); });
  for (std::size_t i = 0; i < count; ++i) {
    keys_out[i] = keys_in[order[i]];
    values_out[i] = values_in[order[i]];
  }
}

}  // namespace detail

struct DeviceRadixSort {
  /// Sorts by the bits [begin_bit, end_bit) of the keys; pairs with equal bits stay in order. If
  /// `storage` is null, only sets `storage_bytes` to the size that the sort needs. Inputs and
  /// outputs must not overlap.
  template <class Key, class Value, class Count>
  static cudaError_t SortPairs(void* storage, std::size_t& storage_bytes, const Key* keys_in,
                               Key* keys_out, const Value* values_in, Value* values_out,
                               Count count, int begin_bit = 0, int end_bit = sizeof(Key) * 8,
                               cudaStream_t stream = nullptr) {
    const auto n = static_cast<std::size_t>(count);
    const std::size_t wanted = 256 + n * (sizeof(Key) + sizeof(Value));
    if (!storage) {
      storage_bytes = wanted;
      return cudaSuccess;
    }
    if (storage_bytes < wanted || begin_bit < 0 || end_bit <= begin_bit ||
        end_bit > static_cast<int>(sizeof(Key) * 8))
      return cudaErrorInvalidValue;
    cudaLaunchConfig_t config{};
    config.stream = stream;
    const cudaError_t launched =
        cudaLaunchKernelEx(&config, detail::sort_pairs<Key, Value>, storage, wanted, keys_in,
                           keys_out, values_in, values_out, n, begin_bit, end_bit);
    // An error that an earlier call left as the last error counts as an error of the sort.
    return launched == cudaSuccess ? cudaPeekAtLastError() : launched;
  }
};

}  // namespace cub
