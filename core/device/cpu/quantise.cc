// Quantise and AddQuantised (core/device/ops/codes.h). Compiled without relaxed arithmetic: codes
// must not depend on the width of vector registers.
#include <algorithm>
#include <array>
#include <cmath>

#include "core/device/cpu/cpu_kernels.h"
#include "core/device/cpu/parallel.h"
#include "core/device/cpu/random_words.h"
#include "core/num/random.h"

namespace ringside::cpu {
namespace {

constexpr float levels = 127;
constexpr std::uint64_t halves = 8;                         // of one counter
constexpr std::uint64_t drawn = halves * counters_at_once;  // elements of one call
constexpr std::int64_t grain = 1 << 14;                     // elements that are worth a thread

float largest(const float* in, std::int64_t count) {
  float most = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    const float magnitude = std::abs(in[i]);
    most = magnitude > most || magnitude != magnitude ? magnitude : most;
  }
  return most;
}

/// The draws of `drawn` elements, from an element that is a multiple of it: u of each.
void draw(std::uint64_t element, const Quantise& op, float* __restrict out) {
  std::array<std::uint32_t, 4 * counters_at_once> words;
  draw_words(element / halves, op.number, op.step, code_key(op.seed), words.data());
  for (std::uint64_t i = 0; i < counters_at_once; ++i)
    for (std::uint64_t w = 0; w < 4; ++w) {
      const std::uint32_t word = words[w * counters_at_once + i];
      out[i * halves + 2 * w] = (static_cast<float>(word & 0xffffu) + 0.5F) * 0x1p-16F;
      out[i * halves + 2 * w + 1] = (static_cast<float>(word >> 16) + 0.5F) * 0x1p-16F;
    }
}

/// Codes of elements of one block. A level that is not finite gives the largest code.
void round_levels(const float* in, const float* u, std::int64_t count, float factor,
                  std::uint8_t* codes) {
  for (std::int64_t i = 0; i < count; ++i) {
    const float level = std::abs(in[i]) * factor + u[i];
    const auto code = static_cast<std::int32_t>(level < levels ? level : levels);
    codes[i] = static_cast<std::uint8_t>(in[i] < 0 ? -code : code);
  }
}

void quantise_range(const Quantise& op, std::int64_t begin, std::int64_t end) {
  const float* in = op.in.data<float>();
  auto* codes = op.codes.data<std::uint8_t>();
  std::array<float, drawn> u;
  std::uint64_t made = ~std::uint64_t{0};  // the element with which `u` begins
  for (std::int64_t e = begin; e < end;) {
    const std::int64_t block = e / op.block;
    const float norm = op.norms.data<float>()[block];
    const std::uint64_t first = static_cast<std::uint64_t>(e) / drawn * drawn;
    if (first != made) draw(made = first, op, u.data());
    const std::int64_t stop =
        std::min({end, (block + 1) * op.block, static_cast<std::int64_t>(first + drawn)});
    round_levels(in + e, u.data() + (static_cast<std::uint64_t>(e) - first), stop - e,
                 norm > 0 ? levels / norm : 0, codes + e);
    e = stop;
  }
}

}  // namespace

void quantise(const Context& context, const Quantise& op) {
  const float* in = op.in.data<float>();
  float* norms = op.norms.data<float>();
  const std::int64_t count = op.in.count();
  parallel_for(context.threads, op.norms.count(), std::max<std::int64_t>(1, grain / op.block),
               [&](std::int64_t first, std::int64_t last, int) {
                 for (std::int64_t b = first; b < last; ++b)
                   norms[b] = largest(in + b * op.block, std::min(op.block, count - b * op.block));
                 quantise_range(op, first * op.block, std::min(last * op.block, count));
               });
}

void add_quantised(const Context& context, const AddQuantised& op) {
  const auto* codes = op.codes.data<std::uint8_t>();
  const float* norms = op.norms.data<float>();
  float* out = op.out.data<float>();
  const std::int64_t count = op.out.count();
  parallel_for(context.threads, op.norms.count(), std::max<std::int64_t>(1, grain / op.block),
               [&](std::int64_t first, std::int64_t last, int) {
                 for (std::int64_t b = first; b < last; ++b) {
                   const float factor = op.scale * norms[b] / levels;
                   for (std::int64_t i = b * op.block; i < std::min((b + 1) * op.block, count); ++i)
                     out[i] += factor * static_cast<float>(static_cast<std::int8_t>(codes[i]));
                 }
               });
}

}  // namespace ringside::cpu
