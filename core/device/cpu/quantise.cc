// Quantise and AddQuantised (core/device/ops/codes.h). Compiled without relaxed arithmetic: codes
// must not depend on the width of vector registers.
#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>

#include "core/device/cpu/cpu_kernels.h"
#include "core/device/cpu/parallel.h"
#include "core/num/random.h"

namespace ringside::cpu {
namespace {

constexpr std::int64_t drawn = 1024,
                       quarter = drawn / 4;  // elements whose words are drawn together
constexpr std::int64_t cached = 1 << 12;     // elements that stay in the nearest cache
constexpr std::int64_t grain = 1 << 14;      // elements that are worth a thread

/// The largest absolute value. Magnitudes are compared as integers, among which a NaN is larger
/// than every number.
float largest(const float* in, std::int64_t count) {
  std::uint32_t most = 0;
  for (std::int64_t i = 0; i < count; ++i)
    most = std::max(most, std::bit_cast<std::uint32_t>(in[i]) & 0x7fffffffu);
  return std::bit_cast<float>(most);
}

/// What the words of elements [group * `drawn`, (group + 1) * `drawn`) are made of.
std::uint32_t key_of(std::int64_t group, const Quantise& op) {
  const auto number = static_cast<std::uint64_t>(group);
  return philox({static_cast<std::uint32_t>(number), static_cast<std::uint32_t>(number >> 32),
                 op.number, op.step},
                code_key(op.seed))[0];
}

/// 2^31 where x is negative, or -0.
std::uint32_t sign_of(float x) { return std::bit_cast<std::uint32_t>(x) & 0x80000000u; }

/// u where h is byte `byte` of a word. No conversion makes it: h and a half become the highest
/// digits of the fraction of a number in [1, 2).
template <int byte>
float drawn_u(std::uint32_t word) {
  constexpr int up = 15 - 8 * byte;  // from the lowest bit of h to the bit that is worth 1/256
  const std::uint32_t moved = up > 0 ? word << std::max(up, 0) : word >> std::max(-up, 0);
  constexpr std::uint32_t half = std::bit_cast<std::uint32_t>(1 + 0x1p-9F);
  return std::bit_cast<float>((moved & 255u << 15) | half) - 1;
}

float half_u(std::uint32_t) { return 0.5F; }

/// Codes of elements of one block, a byte each, where its norm and `factor`, L / norm, are finite.
/// Then |x| * factor is at most L, but for two roundings, and no level with u reaches L + 1.
template <float (*u)(std::uint32_t word)>
void round_levels(const float* __restrict in, const std::uint32_t* __restrict words,
                  std::int64_t count, float factor, std::uint8_t* __restrict codes) {
  for (std::int64_t i = 0; i < count; ++i) {
    const std::uint32_t own = std::bit_cast<std::uint32_t>(u(words[i])) | sign_of(in[i]);
    const float level = in[i] * factor + std::bit_cast<float>(own);
    codes[i] = static_cast<std::uint8_t>(static_cast<std::int32_t>(level));
  }
}

/// The same for any block: a level that is not finite gives the largest code.
void round_any(float (*u)(std::uint32_t word), const float* in, const std::uint32_t* words,
               std::int64_t count, float factor, float levels, std::uint8_t* codes) {
  for (std::int64_t i = 0; i < count; ++i) {
    const float level = std::abs(in[i]) * factor + u(words[i]);
    const auto code = static_cast<std::int32_t>(level < levels ? level : levels);
    codes[i] = static_cast<std::uint8_t>(in[i] < 0 ? -code : code);
  }
}

/// Packs codes into halves of bytes, from element `begin` of their block on.
void pack(const std::uint8_t* __restrict codes, std::int64_t count, std::int64_t begin,
          std::uint8_t* __restrict out) {
  out += begin / 2;
  if (begin % 2 == 1) {
    *out = static_cast<std::uint8_t>(*out | codes[0] << 4);
    ++out, ++codes, --count;
  }
  for (std::int64_t i = 0; i < count / 2; ++i) {
    std::uint16_t both;
    std::memcpy(&both, codes + 2 * i, sizeof both);
    out[i] = static_cast<std::uint8_t>((both & 0x0f) | (both >> 4 & 0xf0));
  }
  if (count % 2 == 1) out[count / 2] = codes[count - 1] & 15;
}

/// Rounds the elements of blocks. For one thread.
class Rounding {
 public:
  explicit Rounding(const Quantise& op) : op_(op) {}

  /// Writes the codes of a block whose largest absolute value is `norm`.
  void round(std::int64_t block, float norm) {
    const float factor = norm > 0 ? code_levels(op_.bits) / norm : 0;
    const std::int64_t begin = block * op_.block, end = std::min(begin + op_.block, op_.in.count());
    const bool finite = std::isfinite(norm) && std::isfinite(factor);
    for (std::int64_t e = begin; e < end;) {
      const std::int64_t stop = std::min(end, (e / quarter + 1) * quarter);
      auto* codes = op_.codes.data<std::uint8_t>();
      to_bytes(e, stop, factor, finite, op_.bits == 8 ? codes + e : bytes_.data());
      if (op_.bits == 4)
        pack(bytes_.data(), stop - e, e - begin, codes + block * ((op_.block + 1) / 2));
      e = stop;
    }
  }

 private:
  /// Rounds elements whose h are the same byte of their words.
  void to_bytes(std::int64_t e, std::int64_t stop, float factor, bool finite, std::uint8_t* codes) {
    if (!op_.random) return to_bytes<half_u>(e, stop, factor, finite, codes);
    draw(e / drawn);
    switch (e % drawn / quarter) {
      case 0:
        return to_bytes<drawn_u<0>>(e, stop, factor, finite, codes);
      case 1:
        return to_bytes<drawn_u<1>>(e, stop, factor, finite, codes);
      case 2:
        return to_bytes<drawn_u<2>>(e, stop, factor, finite, codes);
      default:
        return to_bytes<drawn_u<3>>(e, stop, factor, finite, codes);
    }
  }
  template <float (*u)(std::uint32_t word)>
  void to_bytes(std::int64_t e, std::int64_t stop, float factor, bool finite, std::uint8_t* codes) {
    const float* in = op_.in.data<float>() + e;
    const std::uint32_t* words = words_.data() + e % quarter;
    if (finite)
      round_levels<u>(in, words, stop - e, factor, codes);
    else
      round_any(u, in, words, stop - e, factor, code_levels(op_.bits), codes);
  }
  /// Makes the words of a group: byte r / `quarter` of word r % `quarter` is h of element r. The
  /// key of the next group is made now, beside the arithmetic that does not wait for it.
  void draw(std::int64_t group) {
    if (group == group_) return;
    const std::uint32_t key = group == group_ + 1 ? next_key_ : key_of(group, op_);
    for (std::uint32_t i = 0; i < quarter; ++i) words_[i] = scrambled(key + i);
    next_key_ = key_of(group + 1, op_);
    group_ = group;
  }

  const Quantise& op_;
  std::int64_t group_ = -2;  // of `words_`; `next_key_` is that of the next
  std::uint32_t next_key_ = 0;
  alignas(64) std::array<std::uint32_t, quarter> words_{};
  alignas(64) std::array<std::uint8_t, quarter> bytes_;
};

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

}  // namespace

void quantise(const Context& context, const Quantise& op) {
  const float* in = op.in.data<float>();
  float* norms = op.norms.data<float>();
  const std::int64_t count = op.in.count();
  const std::int64_t near = std::max<std::int64_t>(1, cached / op.block);
  parallel_for(context.threads, op.norms.count(), std::max<std::int64_t>(1, grain / op.block),
               [&](std::int64_t first, std::int64_t last, int) {
                 Rounding rounding(op);
                 for (std::int64_t b = first; b < last; b += near) {
                   const std::int64_t stop = std::min(b + near, last);
                   for (std::int64_t i = b; i < stop; ++i)
                     norms[i] =
                         largest(in + i * op.block, std::min(op.block, count - i * op.block));
                   for (std::int64_t i = b; i < stop; ++i) rounding.round(i, norms[i]);
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
