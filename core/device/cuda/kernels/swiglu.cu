// SwiGLU. A thread computes the same columns of both halves of a row, so backward may work in
// place.
#include "core/device/cuda/kernels/kernels.h"
#include "core/device/cuda/runtime/launch.h"
#include "core/device/cuda/kernels/vectors.cuh"

namespace ringside::cuda {
namespace {

constexpr int threads = 256;

/// x and dx [rows, 2 * width], y and dy [rows, width].
template <class T>
struct Operands {
  const T *x, *dy;
  T *y, *dx;
  std::int64_t rows, width;
};

__device__ __forceinline__ float sigmoid(float x) { return 1 / (1 + __expf(-x)); }

template <class T, int n>
__global__ __launch_bounds__(threads) void forward_kernel(Operands<T> op) {
  const std::int64_t groups = op.width / n, all = op.rows * groups;
  for (std::int64_t g = std::int64_t{blockIdx.x} * threads + threadIdx.x; g < all;
       g += std::int64_t{gridDim.x} * threads) {
    const std::int64_t row = g / groups, c = g % groups * n;
    const Floats<n> gate = load_floats<n>(op.x + row * 2 * op.width + c);
    Floats<n> up = load_floats<n>(op.x + (row * 2 + 1) * op.width + c);
#pragma unroll
    for (int i = 0; i < n; ++i) up.at[i] *= gate.at[i] * sigmoid(gate.at[i]);
    store_floats<n>(op.y + row * op.width + c, up);
  }
}

template <class T, int n>
__global__ __launch_bounds__(threads) void backward_kernel(Operands<T> op) {
  const std::int64_t groups = op.width / n, all = op.rows * groups;
  for (std::int64_t g = std::int64_t{blockIdx.x} * threads + threadIdx.x; g < all;
       g += std::int64_t{gridDim.x} * threads) {
    const std::int64_t row = g / groups, c = g % groups * n;
    Floats<n> gate = load_floats<n>(op.x + row * 2 * op.width + c);
    Floats<n> up = load_floats<n>(op.x + (row * 2 + 1) * op.width + c);
    const Floats<n> dy = load_floats<n>(op.dy + row * op.width + c);
#pragma unroll
    for (int i = 0; i < n; ++i) {
      const float share = sigmoid(gate.at[i]), silu = gate.at[i] * share;
      gate.at[i] = dy.at[i] * up.at[i] * (share + silu * (1 - share));
      up.at[i] = dy.at[i] * silu;
    }
    store_floats<n>(op.dx + row * 2 * op.width + c, gate);
    store_floats<n>(op.dx + (row * 2 + 1) * op.width + c, up);
  }
}

template <class T>
bool aligned(const Operands<T>& op) {
  return has_aligned_rows(op.x, op.width) && has_aligned_rows(op.dy, op.width) &&
         has_aligned_rows(op.y, op.width) && has_aligned_rows(op.dx, op.width);
}

unsigned blocks(const Context& context, std::int64_t groups) {
  return blocks_for(groups, threads, std::int64_t{32} * context.multiprocessors);
}

template <class T>
void forward(const Context& context, const SwiGluForward& op) {
  constexpr int n = in_16_bytes<T>;
  const Operands<T> with{.x = data<T>(op.x),
                         .dy = nullptr,
                         .y = data<T>(op.y),
                         .dx = nullptr,
                         .rows = op.y.shape()[0],
                         .width = op.y.shape()[1]};
  const bool whole = aligned(with);
  launch(context, "swiglu_forward", whole ? forward_kernel<T, n> : forward_kernel<T, 1>,
         blocks(context, op.y.count() / (whole ? n : 1)), threads, with);
}

template <class T>
void backward(const Context& context, const SwiGluBackward& op) {
  constexpr int n = in_16_bytes<T>;
  const Operands<T> with{.x = data<T>(op.x),
                         .dy = data<T>(op.dy),
                         .y = nullptr,
                         .dx = data<T>(op.dx),
                         .rows = op.dy.shape()[0],
                         .width = op.dy.shape()[1]};
  const bool whole = aligned(with);
  launch(context, "swiglu_backward", whole ? backward_kernel<T, n> : backward_kernel<T, 1>,
         blocks(context, op.dy.count() / (whole ? n : 1)), threads, with);
}

}  // namespace

void swiglu_forward(const Context& context, const SwiGluForward& op) {
  with_type(op.x.dtype(), [&]<class T>(std::type_identity<T>) { forward<T>(context, op); });
}

void swiglu_backward(const Context& context, const SwiGluBackward& op) {
  with_type(op.x.dtype(), [&]<class T>(std::type_identity<T>) { backward<T>(context, op); });
}

}  // namespace ringside::cuda
