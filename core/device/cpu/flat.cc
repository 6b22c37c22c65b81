// Flat operations that move or add elements. Compiled without relaxed arithmetic, because an
// element's bits must not depend on its place in the range (core/device/ops/flat.h).
#include <algorithm>
#include <cstring>
#include <type_traits>

#include "core/device/cpu/cpu_kernels.h"
#include "core/device/cpu/parallel.h"
#include "core/device/cpu/squares.h"

namespace ringside::cpu {
namespace {

constexpr std::int64_t grain = 1 << 15;  // fewer elements are not worth a thread

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

template <class T>
void divide_range(const T* in, T* out, std::int64_t begin, std::int64_t end, float by) {
  for (std::int64_t i = begin; i < end; ++i) store(out[i], load(in[i]) / by);
}

template <class T>
void compensate_range(const T* gradients, const T* now, const T* read, T* out, std::int64_t begin,
                      std::int64_t end, float scale) {
  for (std::int64_t i = begin; i < end; ++i) {
    const float g = load(gradients[i]);
    store(out[i], g + scale * g * g * (load(now[i]) - load(read[i])));
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

template <class T>
void add_squares_of(const T* values, std::int64_t count, ExactSum& sum) {
  if constexpr (std::is_same_v<T, float>) {
    add_squares(values, count, sum);
  } else {
    float wide[squares_block];
    for (std::int64_t i = 0; i < count; ++i) wide[i] = load(values[i]);
    add_squares(wide, count, sum);
  }
}

template <class T>
ExactSum squares(const Context& context, const Tensor& in) {
  const T* values = in.data<T>();
  const std::int64_t blocks = (in.count() + squares_block - 1) / squares_block;
  return exact_sum(
      context.threads, blocks, grain / squares_block, [&](std::int64_t block, ExactSum& sum) {
        const std::int64_t begin = block * squares_block;
        add_squares_of(values + begin, std::min(in.count() - begin, squares_block), sum);
      });
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
  parallel_for(
      context.threads, op.out.count(), grain, [&](std::int64_t begin, std::int64_t end, int) {
        with_float_type(op.out.dtype(), [&]<class T>(T) {
          blend_range(op.in.data<T>(), op.out.data<T>(), begin, end, op.in_scale, op.out_scale);
        });
      });
}

void divide(const Context& context, const Divide& op) {
  const float by = *op.by.data<float>();
  parallel_for(context.threads, op.out.count(), grain,
               [&](std::int64_t begin, std::int64_t end, int) {
                 with_float_type(op.out.dtype(), [&]<class T>(T) {
                   divide_range(op.in.data<T>(), op.out.data<T>(), begin, end, by);
                 });
               });
}

void compensate_delay(const Context& context, const CompensateDelay& op) {
  parallel_for(context.threads, op.out.count(), grain,
               [&](std::int64_t begin, std::int64_t end, int) {
                 with_float_type(op.out.dtype(), [&]<class T>(T) {
                   compensate_range(op.gradients.data<T>(), op.now.data<T>(), op.read.data<T>(),
                                    op.out.data<T>(), begin, end, op.scale);
                 });
               });
}

void cast(const Context& context, const Cast& op) {
  const std::int64_t columns = op.in.count() / op.rows;
  for (std::int64_t r = 0; op.rows > 1 && r < op.rows; ++r)
    cast(context,
         {.in = op.in.range(r * columns, columns), .out = op.out.range(r * op.stride, columns)});
  if (op.rows > 1) return;
  if (op.in.dtype() == op.out.dtype()) return copy(context, {.in = op.in, .out = op.out});
  if (op.in.dtype() == DType::f32)
    with_float_type(op.out.dtype(), [&]<class T>(T) { cast_all<float, T>(context, op); });
  else
    with_float_type(op.in.dtype(), [&]<class T>(T) { cast_all<T, float>(context, op); });
}

void sum_of_squares(const Context& context, const SumOfSquares& op) {
  with_float_type(op.in.dtype(),
                  [&]<class T>(T) { squares<T>(context, op.in).store(stored_sum(op.out, 0)); });
}

}  // namespace ringside::cpu
