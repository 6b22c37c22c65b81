// Signs of the operations of codes (core/device/ops/codes.h).
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <vector>

#include "core/device/cpu/cpu_kernels.h"
#include "core/device/cpu/parallel.h"
#include "core/device/cpu/vectors.h"

namespace ringside::cpu {
namespace {

constexpr std::int64_t block = 1024;  // elements whose sum is made in fp32
constexpr std::int64_t grain = 1 << 5;
constexpr std::int64_t sum_lanes = 16;
/// Blocks that are treated together: they stay in the nearest cache, and their sums are made side
/// by side, because the additions of one sum wait for each other.
constexpr std::int64_t near = 4;

using Words = std::uint32_t __attribute__((vector_size(RINGSIDE_VECTOR_BYTES)));

/// Sums of the absolute values of blocks, or of their squares, each in an order that vector
/// registers of any width keep. If there are several blocks, all are whole; one has `count`
/// elements.
template <bool squares, std::int64_t blocks>
void sum_blocks(const float* in, std::int64_t count, double* out) {
  constexpr std::int64_t vectors = sum_lanes / lanes;
  const auto term = [](const Vector& value) {
    return squares ? value * value
                   : std::bit_cast<Vector>(std::bit_cast<Words>(value) & 0x7fffffffu);
  };
  Vector sums[blocks][vectors] = {};
  const std::int64_t whole = count / sum_lanes * sum_lanes;
  for (std::int64_t i = 0; i < whole; i += sum_lanes)
    for (std::int64_t b = 0; b < blocks; ++b)
      for (std::int64_t v = 0; v < vectors; ++v)
        sums[b][v] += term(load(in + b * block + i + v * lanes));
  float rest[sum_lanes] = {};
  std::copy(in + whole, in + count, rest);
  for (std::int64_t b = 0; b < blocks; ++b) {
    float parts[sum_lanes];
    for (std::int64_t v = 0; v < vectors; ++v)
      store(b == 0 ? sums[b][v] + term(load(rest + v * lanes)) : sums[b][v], parts + v * lanes);
    out[b] = 0;
    for (const float part : parts) out[b] += part;
  }
}

/// Makes one byte of two neighbours: the bits of the second, from bit `bits` on, and the first's.
template <int bits>
void join(const std::uint8_t* __restrict in, std::int64_t count, std::uint8_t* __restrict out) {
  for (std::int64_t i = 0; i < count; ++i) {
    std::uint16_t both;
    std::memcpy(&both, in + 2 * i, sizeof both);
    out[i] = static_cast<std::uint8_t>(both | both >> (8 - bits));
  }
}

/// Packs at most `block` signs: a byte for each comparison, then bytes of 2, 4 and 8 of them.
void pack_block(const float* __restrict in, std::int64_t count, std::uint8_t* __restrict signs) {
  alignas(64) std::uint8_t one[block], two[block / 2], four[block / 4];
  for (std::int64_t i = 0; i < count; ++i) one[i] = in[i] >= 0 ? 1 : 0;
  for (std::int64_t i = count; i % 8 != 0; ++i) one[i] = 0;
  const std::int64_t bytes = (count + 7) / 8;
  join<1>(one, 4 * bytes, two);
  join<2>(two, 2 * bytes, four);
  join<4>(four, bytes, signs);
}

/// Packs the signs of at most `near` blocks, and sums what their magnitude is made of.
void pack_blocks(const PackSigns& op, std::int64_t first, std::int64_t blocks, double* sums) {
  const std::int64_t begin = first * block, end = std::min(begin + blocks * block, op.in.count());
  const float* in = op.in.data<float>();
  auto* signs = op.signs.data<std::uint8_t>();
  for (std::int64_t at = begin; at < end; at += block)
    pack_block(in + at, std::min(block, end - at), signs + at / 8);
  if (!op.magnitude) return;
  const bool together = end - begin == near * block;
  const auto sum = op.root_mean_square
                       ? (together ? sum_blocks<true, near> : sum_blocks<true, 1>)
                       : (together ? sum_blocks<false, near> : sum_blocks<false, 1>);
  if (together) return sum(in + begin, block, sums + first);
  for (std::int64_t b = first; b < first + blocks; ++b)
    sum(in + b * block, std::min(block, end - b * block), sums + b);
}

/// Adds `value` with `count` signs, to `out` or to 0. The signs of a word of 32 are read at once,
/// and a lane looks at its own bit.
template <bool onto>
void add_bits(const std::uint8_t* signs, std::int64_t count, float value, float* out) {
  constexpr std::int64_t word_signs = 32;
  Words own = {};
  for (std::int64_t l = 0; l < lanes; ++l) own[l] = 1u << l;
  const Vector plus = Vector{} + value, minus = -plus;
  std::int64_t i = 0;
  for (; i + word_signs <= count; i += word_signs) {
    std::uint32_t word;
    std::memcpy(&word, signs + i / 8, sizeof word);
    const Words all = Words{} + word;
    for (std::int64_t l = 0; l < word_signs; l += lanes) {
      const Vector before = onto ? load(out + i + l) : Vector{};
      const Vector added = (all & own << static_cast<int>(l)) != 0 ? plus : minus;
      store(before + added, out + i + l);
    }
  }
  for (; i < count; ++i)
    out[i] = (onto ? out[i] : 0) + (signs[i / 8] >> i % 8 & 1 ? value : -value);
}

}  // namespace

void pack_signs(const Context& context, const PackSigns& op) {
  const std::int64_t count = op.in.count(), blocks = (count + block - 1) / block;
  std::vector<double> sums(static_cast<std::size_t>(blocks));
  parallel_for(context.threads, blocks, grain, [&](std::int64_t first, std::int64_t last, int) {
    for (std::int64_t b = first; b < last; b += near)
      pack_blocks(op, b, std::min(near, last - b), sums.data());
  });
  if (!op.magnitude) return;
  double sum = 0;
  for (const double one : sums) sum += one;
  const double mean = sum / static_cast<double>(count);
  *op.magnitude.data<float>() = static_cast<float>(op.root_mean_square ? std::sqrt(mean) : mean);
}

void add_signs(const Context& context, const AddSigns& op) {
  float* out = op.out.data<float>();
  const std::int64_t count = op.out.count(), blocks = (count + block - 1) / block;
  parallel_for(context.threads, blocks, grain, [&](std::int64_t first, std::int64_t last, int) {
    for (std::int64_t b = first; b < last; b += near) {
      const std::int64_t begin = b * block, end = std::min(std::min(b + near, last) * block, count);
      if (op.signs.empty() && !op.onto) std::fill(out + begin, out + end, 0.0F);
      for (std::size_t c = 0; c < op.signs.size(); ++c) {
        const float value =
            op.magnitudes.empty() ? op.scale : op.scale * *op.magnitudes[c].data<float>();
        const auto add = op.onto || c > 0 ? add_bits<true> : add_bits<false>;
        add(op.signs[c].data<std::uint8_t>() + begin / 8, end - begin, value, out + begin);
      }
    }
  });
}

}  // namespace ringside::cpu
