// Selection, and moves by index, of the operations of codes (core/device/ops/codes.h).
#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <vector>

#include "core/device/cpu/cpu_kernels.h"
#include "core/device/cpu/parallel.h"
#include "core/num/random.h"

namespace ringside::cpu {
namespace {

constexpr std::int64_t chunk = 1 << 16;  // elements that one thread looks through at a time
constexpr std::int64_t lane = 16;        // elements whose largest key is compared at once
constexpr int low_bits = 19;             // keys have 31 bits, of which a bin has the others
constexpr std::size_t bins = std::size_t{1} << (31 - low_bits);

/// Absolute values in the order of their keys: floats without their sign, as integers.
std::uint32_t key_of(float value) { return std::bit_cast<std::uint32_t>(value) & 0x7fffffffu; }

std::uint32_t largest_key(const float* in, std::int64_t count) {
  std::uint32_t most = 0;
  for (std::int64_t i = 0; i < count; ++i) most = std::max(most, key_of(in[i]));
  return most;
}

std::int64_t chunks_of(std::int64_t count) { return (count + chunk - 1) / chunk; }

/// Calls body(chunk, begin, end) for all chunks of `count` elements.
template <class Body>
void for_each_chunk(const Context& context, std::int64_t count, const Body& body) {
  parallel_for(context.threads, chunks_of(count), 1,
               [&](std::int64_t first, std::int64_t last, int) {
                 for (std::int64_t c = first; c < last; ++c)
                   body(static_cast<std::size_t>(c), c * chunk, std::min((c + 1) * chunk, count));
               });
}

/// The number of elements in each bin. Four tables take turns, so that equal bins in a row do not
/// wait for each other.
std::vector<std::int64_t> histogram(const Context& context, const Tensor& in) {
  const float* values = in.data<float>();
  const auto chunks = static_cast<std::size_t>(chunks_of(in.count()));
  std::vector<std::array<std::uint32_t, bins>> of_chunks(chunks);
  for_each_chunk(context, in.count(), [&](std::size_t c, std::int64_t begin, std::int64_t end) {
    std::array<std::array<std::uint32_t, bins>, 4> counts{};
    for (std::int64_t i = begin; i < end; ++i)
      ++counts[static_cast<std::size_t>(i) % 4][key_of(values[i]) >> low_bits];
    for (std::size_t b = 0; b < bins; ++b)
      of_chunks[c][b] = counts[0][b] + counts[1][b] + counts[2][b] + counts[3][b];
  });
  std::vector<std::int64_t> total(bins);
  for (const auto& counts : of_chunks)
    for (std::size_t b = 0; b < bins; ++b) total[b] += counts[b];
  return total;
}

/// The indices of all elements of the bin and of higher ones, ascending.
std::vector<std::int32_t> candidates(const Context& context, const Tensor& in, std::size_t bin) {
  const float* values = in.data<float>();
  const auto least = static_cast<std::uint32_t>(bin << low_bits);
  std::vector<std::vector<std::int32_t>> of_chunks(static_cast<std::size_t>(chunks_of(in.count())));
  for_each_chunk(context, in.count(), [&](std::size_t c, std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; i += lane) {
      const std::int64_t count = std::min(lane, end - i);
      if (largest_key(values + i, count) < least) continue;
      for (std::int64_t e = i; e < i + count; ++e)
        if (key_of(values[e]) >= least) of_chunks[c].push_back(static_cast<std::int32_t>(e));
    }
  });
  std::vector<std::int32_t> out;
  for (const auto& indices : of_chunks) out.insert(out.end(), indices.begin(), indices.end());
  return out;
}

}  // namespace

void select_top_k(const Context& context, const SelectTopK& op) {
  const float* in = op.in.data<float>();
  const std::int64_t k = op.indices.count();
  const std::vector<std::int64_t> counts = histogram(context, op.in);
  std::size_t bin = bins - 1;
  for (std::int64_t above = counts[bin]; above < k; above += counts[bin]) --bin;
  const std::vector<std::int32_t> found = candidates(context, op.in, bin);
  std::vector<std::uint32_t> keys;
  for (const std::int32_t index : found) keys.push_back(key_of(in[index]));
  const auto last = keys.begin() + (k - 1);
  std::nth_element(keys.begin(), last, keys.end(), std::greater<>());
  const std::uint32_t threshold = *last;
  std::int64_t ties = std::count(keys.begin(), last + 1, threshold);
  auto* indices = op.indices.data<std::int32_t>();
  auto* values = op.values.data<float>();
  for (const std::int32_t index : found) {
    const std::uint32_t key = key_of(in[index]);
    if (key < threshold || (key == threshold && ties-- <= 0)) continue;
    *indices++ = index;
    *values++ = in[index];
  }
}

void draw_indices(const Context&, const DrawIndices& op) {
  auto* indices = op.indices.data<std::int32_t>();
  const std::int64_t k = op.indices.count();
  const auto below = static_cast<std::uint64_t>(op.below);
  std::array<std::uint32_t, 4> words = philox({~0u, ~0u, op.number, op.step}, code_key(op.seed));
  const auto distance = static_cast<std::int64_t>(words[0] * below >> 32);
  for (std::int64_t j = 0; j < k; ++j) {
    const auto four = static_cast<std::uint64_t>(j) / 4;
    if (j % 4 == 0)
      words = philox({static_cast<std::uint32_t>(four), static_cast<std::uint32_t>(four >> 32),
                      op.number, op.step},
                     code_key(op.seed));
    const std::int64_t begin = j * op.below / k, size = (j + 1) * op.below / k - begin;
    const std::uint64_t drawn =
        words[static_cast<std::size_t>(j % 4)] * static_cast<std::uint64_t>(size) >> 32;
    const std::int64_t moved = begin + static_cast<std::int64_t>(drawn) + distance;
    indices[j] = static_cast<std::int32_t>(moved < op.below ? moved : moved - op.below);
  }
}

void draw_normal(const Context& context, const DrawNormal& op) {
  float* out = op.out.data<float>();
  parallel_for(
      context.threads, op.out.count(), 1 << 10, [&](std::int64_t begin, std::int64_t end, int) {
        for (std::int64_t i = begin; i < end; ++i)
          out[i] = static_cast<float>(
              random_normal(op.seed, Stream::codes,
                            (std::uint64_t{op.number} << 32) + static_cast<std::uint64_t>(i)));
      });
}

void take_elements(const Context&, const TakeElements& op) {
  const float* in = op.in.data<float>();
  const auto* indices = op.indices.data<std::int32_t>();
  float* out = op.out.data<float>();
  for (std::int64_t j = 0; j < op.out.count(); ++j) out[j] = in[indices[j]];
}

void add_elements(const Context&, const AddElements& op) {
  const float* in = op.in.data<float>();
  const auto* indices = op.indices.data<std::int32_t>();
  float* out = op.out.data<float>();
  const std::int64_t count = op.out.count();
  for (std::int64_t j = 0; j < op.in.count(); ++j)
    if (const std::int32_t i = indices[j]; i >= 0 && i < count) out[i] += op.scale * in[j];
}

}  // namespace ringside::cpu
