// Parts of the kernels for norms over the last axis: the spread of threads over a row, and the
// choice of a kernel by width. Forward reads a row once and keeps it in registers. Backward reads
// the rows once for all gradients. Rows that are not aligned to 16 bytes, or are too wide, are read
// several times.
#pragma once

#include "core/device/cuda/kernels/column_sums.h"
#include "core/device/cuda/runtime/launch.h"
#include "core/device/cuda/kernels/reduce.cuh"
#include "core/device/cuda/kernels/vectors.cuh"

namespace ringside::cuda {

inline constexpr int norm_threads = 256;
inline constexpr int norm_warps = norm_threads / warp;

/// The threads that compute a row together, with packs of 16 bytes: a warp if `narrow` is true,
/// else a block.
template <class T, bool narrow>
struct Team {
  static constexpr int n = in_16_bytes<T>, threads = narrow ? warp : norm_threads;

  __device__ __forceinline__ static std::int64_t row() {
    return narrow ? std::int64_t{blockIdx.x} * norm_warps + threadIdx.x / warp
                  : std::int64_t{blockIdx.x};
  }
  __device__ __forceinline__ static int member() {
    return static_cast<int>(threadIdx.x) % threads;
  }
  /// The first column of the thread's pack p.
  __device__ __forceinline__ static std::int64_t column(int p) {
    return (std::int64_t{p} * threads + member()) * n;
  }
  /// Every member receives the sum over the team. Calls alternate between slots 0 and 1.
  __device__ __forceinline__ static float sum(float value, int slot) {
    if constexpr (narrow)
      return warp_sum(value);
    else
      return block_sum(value, slot);
  }
};

/// x + residual, for the packs of a thread that lie in the row; `residual` may be null.
template <class Team, int packs, class T, int n>
__device__ __forceinline__ void load_row(Floats<n> (&values)[packs], const T* x, const T* residual,
                                         std::int64_t begin, std::int64_t width) {
#pragma unroll
  for (int p = 0; p < packs; ++p) {
    if (Team::column(p) >= width) continue;
    values[p] = load_floats<n>(x + begin + Team::column(p));
    if (residual) {
      const Floats<n> more = load_floats<n>(residual + begin + Team::column(p));
#pragma unroll
      for (int i = 0; i < n; ++i) values[p].at[i] += more.at[i];
    }
  }
}

template <class... T>
bool have_aligned_rows(std::int64_t width, const T*... operands) {
  return (has_aligned_rows(operands, width) && ...);
}

/// Launches `Kernels`::kept<packs, narrow>() with a warp or a block for each row, in which a thread
/// holds up to `packs` times 16 bytes of the row; or `Kernels`::reread(), for any width and
/// alignment, with a block for each row.
template <class T, class Kernels, class Op>
void launch_norm_forward(const Context& context, const char* name, const Op& op, bool aligned) {
  constexpr int most = 8;  // largest number of packs of a thread
  const std::int64_t packs = (op.width + in_16_bytes<T> - 1) / in_16_bytes<T>;
  if (!aligned || packs > most * norm_threads) {
    launch(context, name, Kernels::reread(), blocks_for(op.rows, 1), norm_threads, op);
    return;
  }
  const bool narrow = packs <= most * warp;
  const std::int64_t each =
      (packs + (narrow ? warp : norm_threads) - 1) / (narrow ? warp : norm_threads);
  const auto kernel = !narrow     ? each <= 2   ? Kernels::template kept<2, false>()
                                    : each <= 4 ? Kernels::template kept<4, false>()
                                                : Kernels::template kept<8, false>()
                      : each <= 1 ? Kernels::template kept<1, true>()
                      : each <= 2 ? Kernels::template kept<2, true>()
                      : each <= 3 ? Kernels::template kept<3, true>()
                      : each <= 4 ? Kernels::template kept<4, true>()
                      : each <= 6 ? Kernels::template kept<6, true>()
                                  : Kernels::template kept<8, true>();
  launch(context, name, kernel, blocks_for(op.rows, narrow ? norm_warps : 1), norm_threads, op);
}

/// Launches `Kernels`::kept<packs, at_once, most_threads>(), in which each thread has `packs`
/// ranges of columns and loads `at_once` rows together; or `Kernels`::reread(), for any width and
/// alignment. `op.parts` becomes each block's part of the sums over rows, [blocks, columns] with
/// the columns of `first` and `second`, into which the parts are added up. `second` may be empty.
template <class T, class Kernels, class Op>
void launch_norm_backward(const Context& context, const char* name, Op op, bool aligned,
                          const Tensor& first, const Tensor& second) {
  const std::int64_t packs = (op.width + in_16_bytes<T> - 1) / in_16_bytes<T>;
  const bool kept = packs <= 2048 && aligned;
  const auto kernel = !kept           ? Kernels::reread()
                      : packs <= 256  ? Kernels::template kept<1, 4, 256>()
                      : packs <= 512  ? Kernels::template kept<1, 2, 512>()
                      : packs <= 1024 ? Kernels::template kept<1, 1, 1024>()
                                      : Kernels::template kept<2, 1, 1024>();
  const std::int64_t columns = packs <= 1024 ? packs : (packs + 1) / 2;  // threads that have work
  const auto threads =
      kept ? static_cast<unsigned>((columns + warp - 1) / warp * warp) : unsigned{norm_threads};
  const std::int64_t at_once = !kept ? 1 : packs <= 256 ? 4 : packs <= 512 ? 2 : 1;
  // Only as many blocks as can run at a time, because each block leaves a partial sum to be added
  // later. Registers limit how many blocks run at a time. The number of blocks depends on the
  // device and on the shape, dtype and alignment of the operands alone, and so do the bits of the
  // sums.
  constexpr std::int64_t resident_threads = sizeof(T) == 2 ? 384 : 576;
  const std::int64_t resident =
      context.multiprocessors * std::max<std::int64_t>(1, resident_threads / threads);
  const unsigned blocks = std::max(1u, blocks_for(op.rows, at_once, resident));
  const Tensor parts =
      context.device.tensor({blocks, first.count() + second.count()}, MemoryKind::workspace);
  op.parts = parts.data<float>();
  launch(context, name, kernel, blocks, threads, op);
  sum_parts(context, parts, first, second);
}

}  // namespace ringside::cuda
