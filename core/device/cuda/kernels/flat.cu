// Flat operations that move or add elements. Compiled without relaxed arithmetic, because the bits
// of an element must not depend on its place in the range (core/device/ops/flat.h).
#include "core/device/cuda/kernels/elementwise.cuh"
#include "core/device/cuda/kernels/kernels.h"
#include "core/device/cuda/kernels/reduce.cuh"

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

/// If `keeps` is false, `out` is not read: its memory may hold anything.
template <class T, bool keeps>
struct Blending {
  const T* in;
  T* out;
  float in_scale, out_scale;

  template <int n>
  struct Operands {
    Pack<T, n> in, out;
  };
  template <int n>
  __device__ Operands<n> read(std::int64_t i) const {
    Operands<n> operands = {};
    operands.in = load<n>(in + i);
    if constexpr (keeps) operands.out = load<n>(out + i);
    return operands;
  }
  template <int n>
  __device__ void write(std::int64_t i, const Operands<n>& operands) const {
    Floats<n> values = unpack(operands.in);
    const Floats<n> before = unpack(operands.out);
#pragma unroll
    for (int e = 0; e < n; ++e) {
      values.at[e] = in_scale * values.at[e];
      if constexpr (keeps) values.at[e] = values.at[e] + out_scale * before.at[e];
    }
    store_floats<n>(out + i, values);
  }
};

template <class T>
struct Compensating {
  const T *gradients, *now, *read_values;
  T* out;
  float scale;

  template <int n>
  struct Operands {
    Pack<T, n> gradients, now, read;
  };
  template <int n>
  __device__ Operands<n> read(std::int64_t i) const {
    return {load<n>(gradients + i), load<n>(now + i), load<n>(read_values + i)};
  }
  template <int n>
  __device__ void write(std::int64_t i, const Operands<n>& operands) const {
    Floats<n> values = unpack(operands.gradients);
    const Floats<n> now = unpack(operands.now), before = unpack(operands.read);
#pragma unroll
    for (int e = 0; e < n; ++e) {
      const float g = values.at[e];
      values.at[e] = g + scale * g * g * (now.at[e] - before.at[e]);
    }
    store_floats<n>(out + i, values);
  }
};

template <class T>
struct Dividing {
  const T* in;
  const float* by;
  T* out;

  template <int n>
  __device__ Pack<T, n> read(std::int64_t i) const {
    return load<n>(in + i);
  }
  template <int n>
  __device__ void write(std::int64_t i, const Pack<T, n>& dividends) const {
    Floats<n> values = unpack(dividends);
    const float divisor = *by;
#pragma unroll
    for (int e = 0; e < n; ++e) values.at[e] /= divisor;
    store_floats<n>(out + i, values);
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

template <class T, bool keeps>
void blend_range(const Context& context, const Blend& op) {
  const T* in = data<T>(op.in);
  T* out = data<T>(op.out);
  const Blending<T, keeps> body{in, out, op.in_scale, op.out_scale};
  elementwise<in_16_bytes<T>, 2>(context, "blend", op.out.count(), body, in, out);
}

template <class T>
void divide_range(const Context& context, const Divide& op) {
  const T* in = data<T>(op.in);
  T* out = data<T>(op.out);
  elementwise<in_16_bytes<T>, 4>(context, "divide", op.out.count(),
                                 Dividing<T>{in, data<float>(op.by), out}, in, out);
}

template <class T>
void compensate_range(const Context& context, const CompensateDelay& op) {
  const Compensating<T> body{data<T>(op.gradients), data<T>(op.now), data<T>(op.read),
                             data<T>(op.out), op.scale};
  elementwise<in_16_bytes<T>, 2>(context, "compensate_delay", op.out.count(), body, body.gradients,
                                 body.now, body.read_values, body.out);
}

template <class In, class Out>
void cast_range(const Context& context, const Cast& op) {
  const In* in = data<In>(op.in);
  Out* out = data<Out>(op.out);
  elementwise<4, 4>(context, "cast", op.out.count(), Casting<In, Out>{in, out}, in, out);
}

/// Element i of `in` is element i % columns of row i / columns.
template <class In, class Out>
__global__ __launch_bounds__(elementwise_threads) void cast_to_rows(const In* in, Out* out,
                                                                    std::int64_t count,
                                                                    std::int64_t columns,
                                                                    std::int64_t stride) {
  const std::int64_t step = std::int64_t{gridDim.x} * elementwise_threads;
  for (std::int64_t i = std::int64_t{blockIdx.x} * elementwise_threads + threadIdx.x; i < count;
       i += step)
    store_float(out + i / columns * stride + i % columns, load_float(in + i));
}

template <class In, class Out>
void cast_rows(const Context& context, const Cast& op) {
  const std::int64_t count = op.in.count();
  if (count == 0) return;
  launch(context, "cast", cast_to_rows<In, Out>,
         blocks_for(count, elementwise_threads, std::int64_t{32} * context.multiprocessors),
         elementwise_threads, data<In>(op.in), data<Out>(op.out), count, count / op.rows,
         op.stride);
}

constexpr int square_threads = 256, square_groups = 8;
constexpr std::int64_t square_blocks = 1024;

/// Each block sums every gridDim-th stretch of elements. In a stretch each thread adds
/// square_groups groups of n elements. Which elements a thread adds, and in which order, does not
/// depend on their address: if the address is not aligned, the elements of a group are read one by
/// one.
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
#pragma unroll
    for (int g = 0; g < square_groups; ++g)
#pragma unroll
      for (int e = 0; e < n; ++e) {
        const double value = values[g].at[e];  // the square of a float is exact in double
        sum = fma(value, value, sum);
      }
  }
  sum = block_sum(sum, 0);
  if (threadIdx.x == 0) parts[blockIdx.x] = sum;
}

__global__ __launch_bounds__(square_threads) void sum_parts_of_squares(const double* parts,
                                                                       int count, double* out) {
  double sum = 0;
  for (int i = static_cast<int>(threadIdx.x); i < count; i += square_threads) sum += parts[i];
  sum = block_sum(sum, 0);
  if (threadIdx.x == 0) store_exact(sum, out);
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
         static_cast<int>(blocks), op.out.data<double>());
}

}  // namespace

void fill(const Context& context, const Fill& op) {
  with_type(op.out.dtype(), [&]<class T>(std::type_identity<T>) { fill_range<T>(context, op); });
}

void copy(const Context& context, const Copy& op) {
  if (op.out.bytes() == 0) return;
  use(context);
  check(cudaMemcpyAsync(op.out.data<std::uint8_t>(), op.in.data<std::uint8_t>(), op.out.bytes(),
                        cudaMemcpyDeviceToDevice, context.stream),
        "copy");
}

void add(const Context& context, const Add& op) {
  with_type(op.out.dtype(), [&]<class T>(std::type_identity<T>) { add_range<T>(context, op); });
}

void blend(const Context& context, const Blend& op) {
  with_type(op.out.dtype(), [&]<class T>(std::type_identity<T>) {
    op.out_scale == 0 ? blend_range<T, false>(context, op) : blend_range<T, true>(context, op);
  });
}

void divide(const Context& context, const Divide& op) {
  with_type(op.out.dtype(), [&]<class T>(std::type_identity<T>) { divide_range<T>(context, op); });
}

void compensate_delay(const Context& context, const CompensateDelay& op) {
  with_type(op.out.dtype(),
            [&]<class T>(std::type_identity<T>) { compensate_range<T>(context, op); });
}

void cast(const Context& context, const Cast& op) {
  if (op.in.dtype() == op.out.dtype() && op.rows == 1)
    return copy(context, {.in = op.in, .out = op.out});
  with_type(op.in.dtype(), [&]<class In>(std::type_identity<In>) {
    with_type(op.out.dtype(), [&]<class Out>(std::type_identity<Out>) {
      if (op.rows > 1)
        cast_rows<In, Out>(context, op);
      else if constexpr (!std::is_same_v<In, Out>)
        cast_range<In, Out>(context, op);
    });
  });
}

void sum_of_squares(const Context& context, const SumOfSquares& op) {
  with_type(op.in.dtype(), [&]<class T>(std::type_identity<T>) { squares<T>(context, op); });
}

}  // namespace ringside::cuda
