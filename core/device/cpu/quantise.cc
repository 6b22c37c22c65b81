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

/// Codes of elements of one block, a byte each. A level that is not finite gives the largest code.
void round_levels(const float* __restrict in, const float* __restrict u, std::int64_t count,
                  float factor, float levels, std::uint8_t* __restrict codes) {
  for (std::int64_t i = 0; i < count; ++i) {
    const float level = std::abs(in[i]) * factor + u[i];
    const auto code = static_cast<std::int32_t>(level < levels ? level : levels);
    codes[i] = static_cast<std::uint8_t>(in[i] < 0 ? -code : code);
  }
}

/// Packs codes into halves of bytes, from element `begin` of their block on.
void pack(const std::uint8_t* __restrict codes, std::int64_t count, std::int64_t begin,
          std::uint8_t* __restrict out) {
  std::int64_t i = 0;
  if (begin % 2 == 1) {
    out[begin / 2] = static_cast<std::uint8_t>(out[begin / 2] | codes[0] << 4);
    i = 1;
  }
  out += (begin + i) / 2;
  for (; i + 2 <= count; i += 2)
    *out++ = static_cast<std::uint8_t>((codes[i] & 15) | codes[i + 1] << 4);
  if (i < count) *out = codes[i] & 15;
}

/// Adds factor * codes, to `out` or to 0.
template <bool onto>
void add_bytes(const std::uint8_t* __restrict codes, std::int64_t count, float factor,
               float* __restrict out) {
  for (std::int64_t i = 0; i < count; ++i)
    out[i] = (onto ? out[i] : 0) + factor * static_cast<float>(static_cast<std::int8_t>(codes[i]));
}

/// The same with two codes in a byte.
template <bool onto>
void add_halves(const std::uint8_t* codes, std::int64_t count, float factor, float* out) {
  constexpr std::int64_t most = 512;
  alignas(64) std::uint16_t pairs[most];
  for (std::int64_t begin = 0; begin < count; begin += 2 * most) {
    const std::int64_t own = std::min(2 * most, count - begin);
    for (std::int64_t i = 0; i < (own + 1) / 2; ++i) {
      const std::uint32_t both = codes[begin / 2 + i];
      const std::uint32_t apart = (both | both << 4) & 0x0f0fu;
      pairs[i] = static_cast<std::uint16_t>(apart | (apart & 0x0808u) * 30);  // with their signs
    }
    add_bytes<onto>(reinterpret_cast<const std::uint8_t*>(pairs), own, factor, out + begin);
  }
}

void quantise_range(const Quantise& op, std::int64_t begin, std::int64_t end) {
  const float* in = op.in.data<float>();
  auto* codes = op.codes.data<std::uint8_t>();
  const float levels = code_levels(op.bits);
  std::array<float, drawn> u;
  std::array<std::uint8_t, drawn> bytes;
  if (!op.random) u.fill(0.5F);
  std::int64_t made = -1;  // the group of `u`
  for (std::int64_t e = begin; e < end;) {
    const std::int64_t block = e / op.block, group = e / drawn;
    const float norm = op.norms.data<float>()[block];
    if (op.random && group != made) draw(made = group, op, u.data());
    const std::int64_t stop = std::min({end, (block + 1) * op.block, (group + 1) * drawn});
    round_levels(in + e, u.data() + e % drawn, stop - e, norm > 0 ? levels / norm : 0, levels,
                 op.bits == 8 ? codes + e : bytes.data());
    if (op.bits == 4)
      pack(bytes.data(), stop - e, e % op.block, codes + block * ((op.block + 1) / 2));
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
  float* out = op.out.data<float>();
  const std::int64_t count = op.out.count(), blocks = code_blocks(count, op.block);
  const std::int64_t near = std::max<std::int64_t>(1, cached / op.block);
  const std::int64_t bytes = op.bits == 8 ? op.block : (op.block + 1) / 2;  // of a block
  const float levels = code_levels(op.bits);
  parallel_for(context.threads, blocks, std::max<std::int64_t>(1, grain / op.block),
               [&](std::int64_t first, std::int64_t last, int) {
                 for (std::int64_t b = first; b < last; b += near) {
                   const std::int64_t stop = std::min(b + near, last);
                   if (op.codes.empty() && !op.onto)
                     std::fill(out + b * op.block, out + std::min(stop * op.block, count), 0.0F);
                   for (std::size_t c = 0; c < op.codes.size(); ++c) {
                     const bool onto = op.onto || c > 0;
                     const auto add = op.bits == 8 ? (onto ? add_bytes<true> : add_bytes<false>)
                                                   : (onto ? add_halves<true> : add_halves<false>);
                     const auto* codes = op.codes[c].data<std::uint8_t>();
                     const float* norms = op.norms[c].data<float>();
                     for (std::int64_t i = b; i < stop; ++i)
                       add(codes + i * bytes, std::min(op.block, count - i * op.block),
                           op.scale * norms[i] / levels, out + i * op.block);
                   }
                 }
               });
}

}  // namespace ringside::cpu
