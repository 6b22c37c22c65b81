// Flat operations that move or add elements. Compiled without relaxed arithmetic: see ops.h.
#include <algorithm>
#include <cstring>

#include "core/device/cpu/cpu_kernels.h"
#include "core/device/cpu/parallel.h"

namespace ringside::cpu {
namespace {

constexpr std::int64_t grain = 1 << 15;  // elements that are worth a thread

}  // namespace

void fill(const Context& context, const Fill& op) {
  float* out = op.out.data<float>();
  parallel_for(context.threads, op.out.count(), grain,
               [&](std::int64_t begin, std::int64_t end, int) {
                 std::fill(out + begin, out + end, op.value);
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
  const float* __restrict in = op.in.data<float>();
  float* __restrict out = op.out.data<float>();
  parallel_for(context.threads, op.out.count(), grain,
               [=](std::int64_t begin, std::int64_t end, int) {
                 for (std::int64_t i = begin; i < end; ++i) out[i] += in[i];
               });
}

}  // namespace ringside::cpu
