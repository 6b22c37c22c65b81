// Signs of the operations of codes (core/device/ops/codes.h).
#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "core/device/cpu/cpu_kernels.h"
#include "core/device/cpu/parallel.h"

namespace ringside::cpu {
namespace {

constexpr std::int64_t block = 1024;  // elements whose sum is made in fp32
constexpr std::int64_t grain = 1 << 5;
constexpr std::int64_t lanes = 16;

/// The sum of the absolute values of a block, or of their squares, in an order that vector
/// registers of any width keep.
template <bool squares>
double sum_of_block(const float* in, std::int64_t count) {
  const auto term = [](float value) { return squares ? value * value : std::abs(value); };
  float sums[lanes] = {};
  std::int64_t i = 0;
  for (; i + lanes <= count; i += lanes)
    for (std::int64_t l = 0; l < lanes; ++l) sums[l] += term(in[i + l]);
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

/// Adds the signs of `bytes` whole bytes.
void add_whole(const std::uint8_t* __restrict signs, std::int64_t bytes, float value,
               float* __restrict out) {
  for (std::int64_t byte = 0; byte < bytes; ++byte)
    for (int bit = 0; bit < 8; ++bit)
      out[byte * 8 + bit] += signs[byte] >> bit & 1 ? value : -value;
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
  const auto* signs = op.signs.data<std::uint8_t>();
  float* out = op.out.data<float>();
  const float value = op.magnitude ? op.scale * *op.magnitude.data<float>() : op.scale;
  const std::int64_t count = op.out.count();
  parallel_for(
      context.threads, (count + 7) / 8, grain * block / 8,
      [&](std::int64_t first, std::int64_t last, int) {
        const std::int64_t whole = std::min(last, count / 8);
        add_whole(signs + first, std::max<std::int64_t>(0, whole - first), value, out + first * 8);
        for (std::int64_t i = std::max(first, whole) * 8; i < std::min(last * 8, count); ++i)
          out[i] += signs[i / 8] >> i % 8 & 1 ? value : -value;
      });
}

}  // namespace ringside::cpu
