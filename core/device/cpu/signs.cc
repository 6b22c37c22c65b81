// Signs of the operations of codes (core/device/ops/codes.h).
#include <algorithm>
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
/// Blocks that stay in the nearest cache while all codes are added.
constexpr std::int64_t near = 4;

using Words = std::uint32_t __attribute__((vector_size(RINGSIDE_VECTOR_BYTES)));

/// The sum of the absolute values of a block, or of their squares, in an order that vector
/// registers of any width keep.
template <bool squares>
double sum_of_block(const float* in, std::int64_t count) {
  const auto term = [](float value) { return squares ? value * value : std::abs(value); };
  float sums[sum_lanes] = {};
  std::int64_t i = 0;
  for (; i + sum_lanes <= count; i += sum_lanes)
    for (std::int64_t l = 0; l < sum_lanes; ++l) sums[l] += term(in[i + l]);
  for (std::int64_t l = 0; i < count; ++i, ++l) sums[l] += term(in[i]);
  double sum = 0;
  for (const float one : sums) sum += one;
  return sum;
}

/// Packs at most `block` signs. The bytes of eight comparisons, 0 or 1 each, become the bits of one
/// byte by a product: every partial product that reaches the highest byte moves one of them there.
void pack_block(const float* in, std::int64_t count, std::uint8_t* signs) {
  std::uint8_t positive[block];
  for (std::int64_t i = 0; i < count; ++i) positive[i] = in[i] >= 0 ? 1 : 0;
  for (std::int64_t i = count; i % 8 != 0; ++i) positive[i] = 0;
  for (std::int64_t i = 0; i < count; i += 8) {
    std::uint64_t eight;
    std::memcpy(&eight, positive + i, sizeof eight);
    signs[i / 8] = static_cast<std::uint8_t>(eight * 0x0102040810204080u >> 56);
  }
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
  const float* in = op.in.data<float>();
  const std::int64_t count = op.in.count(), blocks = (count + block - 1) / block;
  auto* signs = op.signs.data<std::uint8_t>();
  std::vector<double> sums(static_cast<std::size_t>(blocks));
  parallel_for(context.threads, blocks, grain, [&](std::int64_t first, std::int64_t last, int) {
    for (std::int64_t b = first; b < last; ++b) {
      const std::int64_t own = std::min(block, count - b * block);
      pack_block(in + b * block, own, signs + b * block / 8);
      if (op.magnitude)
        sums[static_cast<std::size_t>(b)] = op.root_mean_square
                                                ? sum_of_block<true>(in + b * block, own)
                                                : sum_of_block<false>(in + b * block, own);
    }
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
