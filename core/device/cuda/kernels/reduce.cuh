// Sums and maxima over the threads of a warp and of a block, always in the same order.
#pragma once

#include <cuda_runtime.h>

#include <cmath>

#include "core/num/exact_sum.h"

namespace ringside::cuda {

inline constexpr int warp = 32;
inline constexpr unsigned whole_warp = 0xffffffffu;

// Every lane receives the result. All lanes have the same bits, because addition is commutative and
// the lanes exchange values in a butterfly.
template <class T>
__device__ __forceinline__ T warp_sum(T value) {
#pragma unroll
  for (int lanes = warp / 2; lanes > 0; lanes /= 2)
    value += __shfl_xor_sync(whole_warp, value, lanes);
  return value;
}
__device__ __forceinline__ float warp_max(float value) {
#pragma unroll
  for (int lanes = warp / 2; lanes > 0; lanes /= 2)
    value = fmaxf(value, __shfl_xor_sync(whole_warp, value, lanes));
  return value;
}

// Sums and maxima over a one-dimensional block of whole warps, up to 1024 threads. All threads must
// call these functions, and all receive the result. `slot` (0 or 1) chooses one of two buffers in
// shared memory. Consecutive calls of a function must alternate between slots 0 and 1. Then a fast
// warp may begin the next call while a slow warp still reads the buffer of this call, so each call
// needs only one barrier.

/// Replaces each of the n values by its sum over the block.
template <int n, class T>
__device__ __forceinline__ void block_sum(T (&values)[n], int slot) {
  __shared__ T parts[2][n][warp];
  const int lane = threadIdx.x % warp, mine = threadIdx.x / warp;
#pragma unroll
  for (int i = 0; i < n; ++i) values[i] = warp_sum(values[i]);
  if (lane == 0)
#pragma unroll
    for (int i = 0; i < n; ++i) parts[slot][i][mine] = values[i];
  __syncthreads();
  const int warps = static_cast<int>(blockDim.x) / warp;
#pragma unroll
  for (int i = 0; i < n; ++i) {
    T sum = parts[slot][i][0];
    for (int w = 1; w < warps; ++w) sum += parts[slot][i][w];
    values[i] = sum;
  }
}
template <class T>
__device__ __forceinline__ T block_sum(T value, int slot) {
  T values[1] = {value};
  block_sum(values, slot);
  return values[0];
}

/// Writes `sum`, a sum of squares in fp64, in the format of ExactSum::store(): one double for each
/// digit. The digits hold `sum` exactly; `sum` itself was rounded while it was added up.
__device__ inline void store_exact(double sum, double* out) {
  constexpr int digits = static_cast<int>(ExactSum::digits);
  const bool finite = sum < ldexp(1.0, ExactSum::lowest_bit + digits * ExactSum::digit_bits);
  for (int i = digits - 1; i >= 0; --i) {
    const double unit = ldexp(1.0, ExactSum::lowest_bit + i * ExactSum::digit_bits);
    out[i] = finite ? floor(sum / unit) : sum;  // an infinity or NaN goes into every digit
    sum -= out[i] * unit;
  }
}

__device__ __forceinline__ float block_max(float value, int slot) {
  __shared__ float parts[2][warp];
  value = warp_max(value);
  if (threadIdx.x % warp == 0) parts[slot][threadIdx.x / warp] = value;
  __syncthreads();
  float most = parts[slot][0];
  for (int w = 1; w < static_cast<int>(blockDim.x) / warp; ++w) most = fmaxf(most, parts[slot][w]);
  return most;
}

/// Sums over threadIdx.y in a block of `warp` x `rows` threads. The threads with y = 0 receive the
/// n sums. All threads must call the function; it may be called repeatedly.
template <int rows, int n>
__device__ __forceinline__ void sum_over_y(float (&values)[n]) {
  __shared__ float parts[rows][n][warp];  // in this order no two lanes share a bank
#pragma unroll
  for (int i = 0; i < n; ++i) parts[threadIdx.y][i][threadIdx.x] = values[i];
  __syncthreads();
  if (threadIdx.y == 0)
#pragma unroll
    for (int i = 0; i < n; ++i)
      for (int y = 1; y < rows; ++y) values[i] += parts[y][i][threadIdx.x];
  __syncthreads();
}

}  // namespace ringside::cuda
