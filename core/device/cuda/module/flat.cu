// Flat operations that move or add elements. Compiled without relaxed arithmetic: see ops.h.
#include "core/device/cuda/module/elementwise.cuh"
#include "core/device/cuda/module/kernels.h"
#include "core/device/cuda/module/reduce.cuh"

namespace ringside::cuda {
namespace {

template <class T>
struct Filling {
  T* out;
  float value;

  struct Nothing {};
  template <int n>
  __device__ Nothing read(std::int64_t) const {
    return {};
  }
  template <int n>
  __device__ void write(std::int64_t i, const Nothing&) const {
    Floats<n> values;
#pragma unroll
    for (int e = 0; e < n; ++e) values.at[e] = value;
    store_floats<n>(out + i, values);
  }
};

template <class T>
struct Adding {
  const T* in;
  T* out;

  template <int n>
  struct Operands {
    Pack<T, n> in, out;
  };
  template <int n>
  __device__ Operands<n> read(std::int64_t i) const {
    return {load<n>(in + i), load<n>(out + i)};
  }
  template <int n>
  __device__ void write(std::int64_t i, const Operands<n>& operands) const {
    const Floats<n> more = unpack(operands.in);
    Floats<n> sum = unpack(operands.out);
#pragma unroll
    for (int e = 0; e < n; ++e) sum.at[e] += more.at[e];
    store_floats<n>(out + i, sum);
  }
};

template <class In, class Out>
struct Casting {
  const In* in;
  Out* out;

  template <int n>
  __device__ Pack<In, n> read(std::int64_t i) const {
    return load<n>(in + i);
  }
  template <int n>
  __device__ void write(std::int64_t i, const Pack<In, n>& values) const {
    store_floats<n>(out + i, unpack(values));
  }
};

template <class T>
void fill_range(const Context& context, const Fill& op) {
  T* out = data<T>(op.out);
  elementwise<in_16_bytes<T>, 4>(context, "fill", op.out.count(), Filling<T>{out, op.value}, out);
}

template <class T>
void add_range(const Context& context, const Add& op) {
  const T* in = data<T>(op.in);
  T* out = data<T>(op.out);
  elementwise<in_16_bytes<T>, 2>(context, "add", op.out.count(), Adding<T>{in, out}, in, out);
}

template <class In, class Out>
void cast_range(const Context& context, const Cast& op) {
  const In* in = data<In>(op.in);
  Out* out = data<Out>(op.out);
  elementwise<4, 4>(context, "cast", op.out.count(), Casting<In, Out>{in, out}, in, out);
}

constexpr int square_threads = 256, square_groups = 8;
constexpr std::int64_t square_blocks = 1024;

/// A block sums every gridDim-th stretch of threads x groups. Which elements a thread adds, and in
/// which order, does not depend on their address: where that is not aligned, a group's elements are
/// read one by one.
template <class T>
__global__ __launch_bounds__(square_threads) void sum_squares(const T* in, std::int64_t count,
                                                              bool aligned, double* parts) {
  constexpr int n = in_16_bytes<T>;
  constexpr std::int64_t stretch = std::int64_t{square_threads} * square_groups * n;
  double sum = 0;
  for (std::int64_t begin = blockIdx.x * stretch; begin < count; begin += gridDim.x * stretch) {
    Floats<n> values[square_groups];
#pragma unroll
    for (int g = 0; g < square_groups; ++g) {
      const std::int64_t at = begin + (g * square_threads + std::int64_t{threadIdx.x}) * n;
      if (aligned && at + n <= count) {
        values[g] = load_floats<n>(in + at);
      } else {
#pragma unroll
        for (int e = 0; e < n; ++e) values[g].at[e] = at + e < count ? load_float(in + at + e) : 0;
      }
    }
    // Few enough in fp32 that nothing is lost, and few enough in fp64 where that is slow.
#pragma unroll
    for (int g = 0; g < square_groups; ++g) {
      float squares = 0;
#pragma unroll
      for (int e = 0; e < n; ++e) squares += values[g].at[e] * values[g].at[e];
      sum += squares;
    }
  }
  sum = block_sum(sum, 0);
  if (threadIdx.x == 0) parts[blockIdx.x] = sum;
}

__global__ __launch_bounds__(square_threads) void sum_parts_of_squares(const double* parts,
                                                                       int count, float* out) {
  double sum = 0;
  for (int i = static_cast<int>(threadIdx.x); i < count; i += square_threads) sum += parts[i];
  sum = block_sum(sum, 0);
  if (threadIdx.x == 0) *out = static_cast<float>(sum);
}

template <class T>
void squares(const Context& context, const SumOfSquares& op) {
  const T* in = data<T>(op.in);
  const std::int64_t count = op.in.count();
  constexpr std::int64_t stretch = std::int64_t{square_threads} * square_groups * in_16_bytes<T>;
  const unsigned blocks = blocks_for(count, stretch, square_blocks);
  const auto scratch =
      context.device.allocate(square_blocks * sizeof(double), MemoryKind::workspace);
  auto* parts = reinterpret_cast<double*>(scratch->data());
  launch(context, "sum_of_squares", sum_squares<T>, blocks, square_threads, in, count,
         is_aligned(in, in_16_bytes<T>), parts);
  launch(context, "sum_of_squares", sum_parts_of_squares, 1, square_threads, parts,
         static_cast<int>(blocks), op.out.data<float>());
}

}  // namespace

void fill(const Context& context, const Fill& op) {
  op.out.dtype() == DType::bf16 ? fill_range<__nv_bfloat16>(context, op)
                                : fill_range<float>(context, op);
}

void copy(const Context& context, const Copy& op) {
  if (op.out.bytes() == 0) return;
  use(context);
  check(cudaMemcpyAsync(op.out.data<std::uint8_t>(), op.in.data<std::uint8_t>(), op.out.bytes(),
                        cudaMemcpyDeviceToDevice, context.stream),
        "copy");
}

void add(const Context& context, const Add& op) {
  op.out.dtype() == DType::bf16 ? add_range<__nv_bfloat16>(context, op)
                                : add_range<float>(context, op);
}

void cast(const Context& context, const Cast& op) {
  op.in.dtype() == DType::bf16 ? cast_range<__nv_bfloat16, float>(context, op)
                               : cast_range<float, __nv_bfloat16>(context, op);
}

void sum_of_squares(const Context& context, const SumOfSquares& op) {
  op.in.dtype() == DType::bf16 ? squares<__nv_bfloat16>(context, op) : squares<float>(context, op);
}

}  // namespace ringside::cuda
