// Flat operations that move or add elements. Compiled without relaxed arithmetic: see ops.h.
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

template <class In, class Out>
void cast_all(const Context& context, const Cast& op) {
  const In* in = op.in.data<In>();
  Out* out = op.out.data<Out>();
  parallel_for(context.threads, op.out.count(), grain,
               [=](std::int64_t begin, std::int64_t end, int) {
                 for (std::int64_t i = begin; i < end; ++i) store(out[i], load(in[i]));
               });
}

/// Blocks of a fixed size, so that the threads do not matter.
template <class T>
double squares(const Context& context, const Tensor& in) {
  const T* values = in.data<T>();
  std::vector<double> blocks(static_cast<std::size_t>((in.count() + grain - 1) / grain));
  parallel_for(context.threads, static_cast<std::int64_t>(blocks.size()), 1,
               [&](std::int64_t first, std::int64_t last, int) {
                 for (std::int64_t b = first; b < last; ++b) {
                   double sum = 0;
                   for (std::int64_t i = b * grain; i < std::min(in.count(), (b + 1) * grain); ++i)
                     sum += static_cast<double>(load(values[i])) * load(values[i]);
                   blocks[static_cast<std::size_t>(b)] = sum;
                 }
               });
  return std::accumulate(blocks.begin(), blocks.end(), 0.0);
}

}  // namespace

void fill(const Context& context, const Fill& op) {
  parallel_for(context.threads, op.out.count(), grain,
               [&](std::int64_t begin, std::int64_t end, int) {
                 if (op.out.dtype() == DType::bf16)
                   fill_range(op.out.data<bf16>(), begin, end, op.value);
                 else
                   fill_range(op.out.data<float>(), begin, end, op.value);
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
                 if (op.out.dtype() == DType::bf16)
                   add_range(op.in.data<bf16>(), op.out.data<bf16>(), begin, end);
                 else
                   add_range(op.in.data<float>(), op.out.data<float>(), begin, end);
               });
}

void cast(const Context& context, const Cast& op) {
  if (op.in.dtype() == DType::bf16)
    cast_all<bf16, float>(context, op);
  else
    cast_all<float, bf16>(context, op);
}

void sum_of_squares(const Context& context, const SumOfSquares& op) {
  *op.out.data<double>() = op.in.dtype() == DType::bf16 ? squares<bf16>(context, op.in)
                                                        : squares<float>(context, op.in);
}

}  // namespace ringside::cpu
