// Quantise and AddQuantised (core/device/ops/codes.h). Compiled without relaxed arithmetic: codes
// must not depend on the width of vector registers.
#include <algorithm>
#include <array>
#include <bit>
#include <cmath>

#include "core/device/cpu/cpu_kernels.h"
#include "core/device/cpu/parallel.h"
#include "core/num/random.h"

namespace ringside::cpu {
namespace {

constexpr float levels = 127;
constexpr std::int64_t drawn = 1024, quarter = drawn / 4;  // elements whose u are drawn together
constexpr std::int64_t cached = 1 << 14;                   // elements that are read again soon
constexpr std::int64_t grain = 1 << 14;                    // elements that are worth a thread

/// The largest absolute value. Magnitudes are compared as integers, among which a NaN is larger
/// than every number.
float largest(const float* in, std::int64_t count) {
  std::uint32_t most = 0;
  for (std::int64_t i = 0; i < count; ++i)
    most = std::max(most, std::bit_cast<std::uint32_t>(in[i]) & 0x7fffffffu);
  return std::bit_cast<float>(most);
}

/// The draws of `drawn` elements, from element `group` * `drawn` on: u of each.
void draw(std::int64_t group, const Quantise& op, float* __restrict out) {
  const auto number = static_cast<std::uint64_t>(group);
  const std::uint32_t key = philox({static_cast<std::uint32_t>(number),
                                    static_cast<std::uint32_t>(number >> 32), op.number, op.step},
                                   code_key(op.seed))[0];
  std::array<std::uint32_t, quarter> words;
  for (std::uint32_t i = 0; i < quarter; ++i) words[i] = scrambled(key + i);
  for (int byte = 0; byte < 4; ++byte)
    for (std::int64_t i = 0; i < quarter; ++i) {
      const auto h =
          static_cast<std::int32_t>(words[static_cast<std::size_t>(i)] >> 8 * byte & 255u);
      out[byte * quarter + i] = (static_cast<float>(h) + 0.5F) * 0x1p-8F;
    }
}

/// Codes of elements of one block. A level that is not finite gives the largest code.
void round_levels(const float* __restrict in, const float* __restrict u, std::int64_t count,
                  float factor, std::uint8_t* __restrict codes) {
  for (std::int64_t i = 0; i < count; ++i) {
    const float level = std::abs(in[i]) * factor + u[i];
    const auto code = static_cast<std::int32_t>(level < levels ? level : levels);
    codes[i] = static_cast<std::uint8_t>(in[i] < 0 ? -code : code);
  }
}

void add_codes(const std::uint8_t* __restrict codes, std::int64_t count, float factor,
               float* __restrict out) {
  for (std::int64_t i = 0; i < count; ++i)
    out[i] += factor * static_cast<float>(static_cast<std::int8_t>(codes[i]));
}

void quantise_range(const Quantise& op, std::int64_t begin, std::int64_t end) {
  const float* in = op.in.data<float>();
  auto* codes = op.codes.data<std::uint8_t>();
  std::array<float, drawn> u;
  std::int64_t made = -1;  // the group of `u`
  for (std::int64_t e = begin; e < end;) {
    const std::int64_t block = e / op.block, group = e / drawn;
    const float norm = op.norms.data<float>()[block];
    if (group != made) draw(made = group, op, u.data());
    const std::int64_t stop = std::min({end, (block + 1) * op.block, (group + 1) * drawn});
    round_levels(in + e, u.data() + e % drawn, stop - e, norm > 0 ? levels / norm : 0, codes + e);
    e = stop;
  }
}

}  // namespace

void quantise(const Context& context, const Quantise& op) {
  const float* in = op.in.data<float>();
  float* norms = op.norms.data<float>();
  const std::int64_t count = op.in.count();
  const std::int64_t near = std::max<std::int64_t>(1, cached / op.block);
  parallel_for(context.threads, op.norms.count(), std::max<std::int64_t>(1, grain / op.block),
               [&](std::int64_t first, std::int64_t last, int) {
                 for (std::int64_t b = first; b < last; b += near) {
                   const std::int64_t stop = std::min(b + near, last);
                   for (std::int64_t own = b; own < stop; ++own)
                     norms[own] =
                         largest(in + own * op.block, std::min(op.block, count - own * op.block));
                   quantise_range(op, b * op.block, std::min(stop * op.block, count));
                 }
               });
}

void add_quantised(const Context& context, const AddQuantised& op) {
  const auto* codes = op.codes.data<std::uint8_t>();
  const float* norms = op.norms.data<float>();
  float* out = op.out.data<float>();
  const std::int64_t count = op.out.count();
  parallel_for(context.threads, op.norms.count(), std::max<std::int64_t>(1, grain / op.block),
               [&](std::int64_t first, std::int64_t last, int) {
                 for (std::int64_t b = first; b < last; ++b)
                   add_codes(codes + b * op.block, std::min(op.block, count - b * op.block),
                             op.scale * norms[b] / levels, out + b * op.block);
               });
}

}  // namespace ringside::cpu
