#include "peer/comm/sum.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "core/base/error.h"

namespace ringside::peer {
namespace {

// Vectorised by hand: compilers do not vectorise these loops, because a target may be a source.
typedef float Lanes __attribute__((vector_size(64)));
constexpr std::size_t lanes = sizeof(Lanes) / sizeof(float);
constexpr std::size_t unroll = 4;

void load(Lanes& value, const float* from) { std::memcpy(&value, from, sizeof value); }

void store(float* to, const Lanes& value) { std::memcpy(to, &value, sizeof value); }

/// `Sources` and `Targets` are numbers known to the compiler, or 0 for any number.
template <std::size_t Sources, std::size_t Targets>
void sum(std::span<const float* const> sources, std::span<float* const> targets,
         std::size_t count) {
  const std::size_t ns = Sources > 0 ? Sources : sources.size();
  const std::size_t nt = Targets > 0 ? Targets : targets.size();
  std::size_t i = 0;
  for (; i + unroll * lanes <= count; i += unroll * lanes) {
    Lanes total[unroll];
    for (std::size_t k = 0; k < unroll; ++k) load(total[k], sources[0] + i + k * lanes);
    for (std::size_t s = 1; s < ns; ++s)
      for (std::size_t k = 0; k < unroll; ++k) {
        Lanes next;
        load(next, sources[s] + i + k * lanes);
        total[k] += next;
      }
    for (std::size_t t = 0; t < nt; ++t)
      for (std::size_t k = 0; k < unroll; ++k) store(targets[t] + i + k * lanes, total[k]);
  }
  for (; i < count; ++i) {
    float total = sources[0][i];
    for (std::size_t s = 1; s < ns; ++s) total += sources[s][i];
    for (std::size_t t = 0; t < nt; ++t) targets[t][i] = total;
  }
}

void sum_floats(std::span<const float* const> sources, std::span<float* const> targets,
                std::size_t count) {
  if (sources.size() == 2 && targets.size() == 2)
    sum<2, 2>(sources, targets, count);
  else if (sources.size() == 2 && targets.size() == 1)
    sum<2, 1>(sources, targets, count);
  else
    sum<0, 0>(sources, targets, count);
}

bf16 rounded(float value, bf16) { return to_bf16(value); }
fp16 rounded(float value, fp16) { return to_fp16(value); }

/// Adds up block by block; a block stays in the processor's nearest cache.
template <class T>
void sum_rounded(std::span<const std::byte* const> sources, std::span<std::byte* const> targets,
                 std::size_t count) {
  constexpr std::size_t block = 512;
  T total[block], next[block];
  for (std::size_t begin = 0; begin < count; begin += block) {
    const std::size_t n = std::min(block, count - begin);
    const std::size_t at = begin * sizeof(T), bytes = n * sizeof(T);
    std::memcpy(total, sources[0] + at, bytes);
    for (std::size_t s = 1; s < sources.size(); ++s) {
      std::memcpy(next, sources[s] + at, bytes);
      for (std::size_t i = 0; i < n; ++i)
        total[i] = rounded(to_float(total[i]) + to_float(next[i]), T{});
    }
    for (std::byte* target : targets) std::memcpy(target + at, total, bytes);
  }
}

}  // namespace

void sum_in_order(DType dtype, std::span<const std::byte* const> sources,
                  std::span<std::byte* const> targets, std::size_t count) {
  if (dtype == DType::bf16) return sum_rounded<bf16>(sources, targets, count);
  if (dtype == DType::f16) return sum_rounded<fp16>(sources, targets, count);
  if (dtype != DType::f32)
    throw Error("ranks can sum only fp32, bf16 and fp16, not {}", name_of(dtype));
  std::vector<const float*> from;
  for (const std::byte* source : sources) from.push_back(reinterpret_cast<const float*>(source));
  std::vector<float*> to;
  for (std::byte* target : targets) to.push_back(reinterpret_cast<float*>(target));
  sum_floats(from, to, count);
}

}  // namespace ringside::peer
