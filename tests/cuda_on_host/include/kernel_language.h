// CUDA's additions to C++ for kernels. A block runs on its stream's thread. The threads of the
// block take turns on the stream's thread: each runs until it waits for other threads of the block.
#pragma once

#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "vector_types.h"

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline __attribute__((always_inline))
#define __launch_bounds__(...)
#define __shared__ static thread_local

extern constinit thread_local uint3 threadIdx, blockIdx;
extern constinit thread_local dim3 blockDim, gridDim;
inline constexpr int warpSize = 32;

namespace cuda_on_host {

// Where in the source a thread waits for others.
struct Site {
  const char* file;
  int line;
};
void wait_for_block(Site site);
/// Waits for the lanes of the mask and returns what each of the warp's 32 lanes brought; for lanes
/// that are not in the mask all bits are set. The result stays valid during the thread's next call,
/// but not during the call after that.
const std::uint64_t* wait_for_warp(unsigned mask, std::uint64_t brought, Site site);
/// The lane of the running thread in its warp.
int lane();

template <class T>
T take(unsigned mask, T value, int from, Site site) {
  static_assert(sizeof(T) <= 8 && std::is_trivially_copyable_v<T>);
  std::uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof value);
  std::memcpy(&value, &wait_for_warp(mask, bits, site)[from], sizeof value);
  return value;
}

}  // namespace cuda_on_host

// A default argument is evaluated where the call is, so `site` names the place of the call.
#define CUDA_ON_HOST_SITE cuda_on_host::Site site = {__builtin_FILE(), __builtin_LINE()}

inline void __syncthreads(CUDA_ON_HOST_SITE) { cuda_on_host::wait_for_block(site); }
inline void __syncwarp(unsigned mask = 0xffffffff, CUDA_ON_HOST_SITE) {
  cuda_on_host::wait_for_warp(mask, 0, site);
}
template <class T>
T __shfl_sync(unsigned mask, T value, int from, int width = 32, CUDA_ON_HOST_SITE) {
  const int first = cuda_on_host::lane() & ~(width - 1);
  return cuda_on_host::take(mask, value, first | (from & (width - 1)), site);
}
template <class T>
T __shfl_xor_sync(unsigned mask, T value, int bits, int width = 32, CUDA_ON_HOST_SITE) {
  const int lane = cuda_on_host::lane(), from = lane ^ bits;
  const bool is_later_part = from >= (lane & ~(width - 1)) + width;
  return cuda_on_host::take(mask, value, is_later_part ? lane : from, site);
}
template <class T>
T __shfl_down_sync(unsigned mask, T value, unsigned by, int width = 32, CUDA_ON_HOST_SITE) {
  const int lane = cuda_on_host::lane(), from = (lane & (width - 1)) + static_cast<int>(by);
  return cuda_on_host::take(mask, value, from < width ? lane + static_cast<int>(by) : lane, site);
}
template <class T>
T __shfl_up_sync(unsigned mask, T value, unsigned by, int width = 32, CUDA_ON_HOST_SITE) {
  const int lane = cuda_on_host::lane(), from = (lane & (width - 1)) - static_cast<int>(by);
  return cuda_on_host::take(mask, value, from >= 0 ? lane - static_cast<int>(by) : lane, site);
}
inline unsigned __ballot_sync(unsigned mask, int is_true, CUDA_ON_HOST_SITE) {
  const std::uint64_t* lanes = cuda_on_host::wait_for_warp(mask, is_true != 0, site);
  unsigned result = 0;
  for (int i = 0; i < 32; ++i) result |= lanes[i] == 1 ? 1u << i : 0;
  return result;
}
#undef CUDA_ON_HOST_SITE

template <class T>
requires std::is_same_v<T, int> || std::is_same_v<T, unsigned> || std::is_same_v<T, float> T
atomicAdd(T* to, std::type_identity_t<T> value) {
  return std::atomic_ref(*to).fetch_add(value, std::memory_order_relaxed);
}
inline int atomicMax(int* to, int value) {
  std::atomic_ref at(*to);
  int old = at.load(std::memory_order_relaxed);
  while (old < value && !at.compare_exchange_weak(old, value, std::memory_order_relaxed)) {
  }
  return old;
}

// On a GPU these loads and stores use caches in different ways. On the host they are ordinary loads
// and stores.
template <class T>
T __ldg(const T* from) {
  return *from;
}
template <class T>
T __ldcs(const T* from) {
  return *from;
}
template <class T>
void __stcs(T* to, std::type_identity_t<T> value) {
  *to = value;
}
template <class T>
void __stwb(T* to, std::type_identity_t<T> value) {
  *to = value;
}

template <class A, class B>
requires std::is_arithmetic_v<A> && std::is_arithmetic_v<B>
constexpr std::common_type_t<A, B> min(A a, B b) { return b < a ? b : a; }
template <class A, class B>
requires std::is_arithmetic_v<A> && std::is_arithmetic_v<B>
constexpr std::common_type_t<A, B> max(A a, B b) { return a < b ? b : a; }
// Macros, because the C library has functions of its own with these names.
#define __expf expf
#define __logf logf
inline float rsqrtf(float x) { return 1 / std::sqrt(x); }
inline float __fdividef(float x, float y) { return x / y; }
inline int __float_as_int(float x) { return std::bit_cast<int>(x); }
inline unsigned __float_as_uint(float x) { return std::bit_cast<unsigned>(x); }
inline float __int_as_float(int x) { return std::bit_cast<float>(x); }
inline float __uint_as_float(unsigned x) { return std::bit_cast<float>(x); }
inline int __popc(unsigned x) { return std::popcount(x); }
