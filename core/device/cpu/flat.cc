// Flat operations that move or add elements. Compiled without relaxed arithmetic, because the bits
// must not depend on the place in the range (core/device/ops/flat.h).
#include <algorithm>
#include <cstring>
#include <numeric>
#include <vector>

#include "core/device/cpu/cpu_kernels.h"
#include "core/device/cpu/parallel.h"

namespace ringside::cpu {
namespace {

constexpr std::int64_t grain = 1 << 15;  // elements that are worth a thread

template <class T>
void fill_range(T* out, std::int64_t begin, std::int64_t end, float value) {
  T element;
  store(element, value);
  std::fill(out + begin, out + end, element);
}

template <class T>
void add_range(const T* __restrict in, T* __restrict out, std::int64_t begin, std::int64_t end) {
  for (std::int64_t i = begin; i < end; ++i) store(out[i], load(out[i]) + load(in[i]));
}

/// If out_scale is 0, `out` is not read: its memory may hold anything.
template <class T>
void blend_range(const T* in, T* out, std::int64_t begin, std::int64_t end, float in_scale,
                 float out_scale) {
  if (out_scale == 0) {
    for (std::int64_t i = begin; i < end; ++i) store(out[i], in_scale * load(in[i]));
  } else {
    for (std::int64_t i = begin; i < end; ++i)
      store(out[i], in_scale * load(in[i]) + out_scale * load(out[i]));
  }
}

template <class In, class Out>
void cast_all(const Context& context, const Cast& op) {
  const In* in = op.in.data<In>();
  Out* out = op.out.data<Out>();
  parallel_for(context.threads, op.out.count(), grain,
               [=](std::int64_t begin, std::int64_t end, int) {
                 for (std::int64_t i = begin; i < end; ++i) store(out[i], load(in[i]));
               });
}

/// Sixteen sums side by side: the result is the same whether one vector holds them or several do.
template <class T>
double squares(const T* values, std::int64_t count) {
  constexpr std::int64_t lanes = 16;
  double sums[lanes] = {};
  std::int64_t i = 0;
  for (; i + lanes <= count; i += lanes)
    for (std::int64_t lane = 0; lane < lanes; ++lane) {
      const double value = load(values[i + lane]);
      sums[lane] += value * value;
    }
  for (; i < count; ++i) {
    const double value = load(values[i]);
    sums[i % lanes] += value * value;
  }
  return std::accumulate(sums, sums + lanes, 0.0);
}

/// Sums blocks of a fixed size, so that the result does not depend on the number of threads.
template <class T>
double squares(const Context& context, const Tensor& in) {
  const T* values = in.data<T>();
  std::vector<double> blocks(static_cast<std::size_t>((in.count() + grain - 1) / grain));
  parallel_for(context.threads, static_cast<std::int64_t>(blocks.size()), 1,
               [&](std::int64_t first, std::int64_t last, int) {
                 for (std::int64_t b = first; b < last; ++b)
                   blocks[static_cast<std::size_t>(b)] =
                       squares(values + b * grain, std::min(in.count() - b * grain, grain));
               });
  return std::accumulate(blocks.begin(), blocks.end(), 0.0);
}

}  // namespace

void fill(const Context& context, const Fill& op) {
  parallel_for(
      context.threads, op.out.count(), grain, [&](std::int64_t begin, std::int64_t end, int) {
        with_float_type(op.out.dtype(),
                        [&]<class T>(T) { fill_range(op.out.data<T>(), begin, end, op.value); });
      });
}

void copy(const Context& context, const Copy& op) {
  const auto* in = op.in.data<std::uint8_t>();
  auto* out = op.out.data<std::uint8_t>();
  parallel_for(context.threads, static_cast<std::int64_t>(op.out.bytes()), 4 * grain,
               [&](std::int64_t begin, std::int64_t end, int) {
                 std::memcpy(out + begin, in + begin, static_cast<std::size_t>(end - begin));
               });
}

void add(const Context& context, const Add& op) {
  parallel_for(context.threads, op.out.count(), grain,
               [&](std::int64_t begin, std::int64_t end, int) {
                 with_float_type(op.out.dtype(), [&]<class T>(T) {
                   add_range(op.in.data<T>(), op.out.data<T>(), begin, end);
                 });
               });
}

void blend(const Context& context, const Blend& op) {
  parallel_for(context.threads, op.out.count(), grain,
               [&](std::int64_t begin, std::int64_t end, int) {
                 blend_range(op.in.data<float>(), op.out.data<float>(), begin, end, op.in_scale,
                             op.out_scale);
               });
}

void cast(const Context& context, const Cast& op) {
  if (op.in.dtype() == op.out.dtype()) return copy(context, {.in = op.in, .out = op.out});
  if (op.in.dtype() == DType::f32)
    with_float_type(op.out.dtype(), [&]<class T>(T) { cast_all<float, T>(context, op); });
  else
    with_float_type(op.in.dtype(), [&]<class T>(T) { cast_all<T, float>(context, op); });
}

void sum_of_squares(const Context& context, const SumOfSquares& op) {
  with_float_type(op.in.dtype(),
                  [&]<class T>(T) { *op.out.data<double>() = squares<T>(context, op.in); });
}

}  // namespace ringside::cpu
