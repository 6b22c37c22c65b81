// Elements in memory and in registers: memory accesses of up to 16 bytes, arithmetic in fp32.
#pragma once

#include <cuda_runtime.h>

#include <bit>
#include <cstdint>

#include "core/device/cuda/kernels/element_types.cuh"

namespace ringside::cuda {

/// Number of elements in an access of 16 bytes.
template <class T>
inline constexpr int in_16_bytes = 16 / static_cast<int>(sizeof(T));

template <class T>
bool is_aligned(const T* pointer, int elements) {
  return reinterpret_cast<std::uintptr_t>(pointer) % (sizeof(T) * elements) == 0;
}
/// Whether every row of `width` elements can be read by accesses of 16 bytes. For a null pointer
/// only the width counts.
template <class T>
bool has_aligned_rows(const T* pointer, std::int64_t width) {
  return width % in_16_bytes<T> == 0 && is_aligned(pointer, in_16_bytes<T>);
}

/// n elements as they lie in memory, aligned to their total size: 1, 2, 4, 8 or 16 bytes.
template <class T, int n>
struct alignas(sizeof(T) * n) Pack {
  T at[n];
};

namespace access {
template <std::size_t bytes>
struct Of;
template <>
struct Of<1> {
  using Type = unsigned char;
};
template <>
struct Of<2> {
  using Type = unsigned short;
};
template <>
struct Of<4> {
  using Type = unsigned int;
};
template <>
struct Of<8> {
  using Type = uint2;
};
template <>
struct Of<16> {
  using Type = uint4;
};
}  // namespace access

template <int n, class T>
__device__ __forceinline__ Pack<T, n> load(const T* from) {
  using Access = typename access::Of<sizeof(T) * n>::Type;
  const Access whole = *reinterpret_cast<const Access*>(from);
  return std::bit_cast<Pack<T, n>>(whole);
}
template <int n, class T>
__device__ __forceinline__ void store(T* to, const Pack<T, n>& pack) {
  using Access = typename access::Of<sizeof(T) * n>::Type;
  // The compiler may split an ordinary assignment into stores of 4 bytes.
  __stwb(reinterpret_cast<Access*>(to), std::bit_cast<Access>(pack));
}

/// n elements in fp32, in registers.
template <int n>
struct Floats {
  float at[n];
};

template <int n>
__device__ __forceinline__ Floats<n> unpack(const Pack<float, n>& pack) {
  return std::bit_cast<Floats<n>>(pack);
}
template <int n>
__device__ __forceinline__ Floats<n> unpack(const Pack<__nv_bfloat16, n>& pack) {
  Floats<n> out;
#pragma unroll
  for (int i = 0; i < n; ++i) out.at[i] = __bfloat162float(pack.at[i]);
  return out;
}

template <int n>
__device__ __forceinline__ Floats<n> unpack(const Pack<__half, n>& pack) {
  Floats<n> out;
#pragma unroll
  for (int i = 0; i < n; ++i) out.at[i] = __half2float(pack.at[i]);
  return out;
}

// One instruction rounds two elements.
__device__ __forceinline__ __nv_bfloat162 round_pair(float x, float y, __nv_bfloat16) {
  return __floats2bfloat162_rn(x, y);
}
__device__ __forceinline__ __half2 round_pair(float x, float y, __half) {
  return __floats2half2_rn(x, y);
}

/// Rounds to nearest even.
template <class T, int n>
__device__ __forceinline__ Pack<T, n> pack(const Floats<n>& values) {
  if constexpr (std::is_same_v<T, float>) {
    return std::bit_cast<Pack<T, n>>(values);
  } else if constexpr (n == 1) {
    return {{round_pair(values.at[0], 0, T()).x}};
  } else {
    Pack<T, n> out;
#pragma unroll
    for (int i = 0; i < n; i += 2) {
      const auto pair = round_pair(values.at[i], values.at[i + 1], T());
      out.at[i] = pair.x;
      out.at[i + 1] = pair.y;
    }
    return out;
  }
}

template <int n, class T>
__device__ __forceinline__ Floats<n> load_floats(const T* from) {
  return unpack(load<n>(from));
}
template <int n, class T>
__device__ __forceinline__ void store_floats(T* to, const Floats<n>& values) {
  store<n>(to, pack<T>(values));
}
template <class T>
__device__ __forceinline__ float load_float(const T* from) {
  return load_floats<1>(from).at[0];
}
template <class T>
__device__ __forceinline__ void store_float(T* to, float value) {
  store_floats<1>(to, Floats<1>{{value}});
}

}  // namespace ringside::cuda
