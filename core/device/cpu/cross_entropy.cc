#include <algorithm>
#include <cmath>

#include "core/device/cpu/cpu_kernels.h"
#include "core/device/cpu/parallel.h"
#include "core/device/cpu/vector_math.h"

namespace ringside::cpu {
namespace {

// Not inlined, for the reason given at exponentials() in vector_math.h.
[[gnu::noinline]] float sum_of_exponentials(const float* row, std::int64_t count, float most) {
  float sum = 0;
#pragma omp simd reduction(+ : sum)
  for (std::int64_t j = 0; j < count; ++j) sum += exponential(row[j] - most);
  return sum;
}

}  // namespace

void cross_entropy(const Context& context, const CrossEntropy& op) {
  const std::int64_t rows = op.logits.shape()[0], classes = op.logits.shape()[1];
  const auto* targets = op.targets.data<std::int32_t>();
  const float* logits = op.logits.data<float>();
  float* losses = op.losses.data<float>();
  float* hits = op.hits.data<float>();
  float* dlogits = op.dlogits.data<float>();
  const std::int64_t grain = 1 + (1 << 12) / std::max<std::int64_t>(classes, 1);
  parallel_for(context.threads, rows, grain, [&](std::int64_t begin, std::int64_t end, int) {
    for (std::int64_t r = begin; r < end; ++r) {
      const float* row = logits + r * classes;
      const std::int32_t target = targets[r];
      if (target < 0) {
        losses[r] = 0;
        if (hits) hits[r] = 0;
        if (dlogits) std::fill_n(dlogits + r * classes, classes, 0.0f);
        continue;
      }
      const float most = highest(row, classes);
      const float wanted = row[target];  // read before dlogits, which may be the same memory
      if (hits) hits[r] = most <= wanted ? 1.0f : 0.0f;
      if (!dlogits) {
        losses[r] = std::log(sum_of_exponentials(row, classes, most)) + (most - wanted);
        continue;
      }
      float* out = dlogits + r * classes;
      const float sum = exponentials(row, classes, most, out);
      losses[r] = std::log(sum) + (most - wanted);
      const float factor = op.scale / sum;
#pragma omp simd
      for (std::int64_t j = 0; j < classes; ++j) out[j] *= factor;
      out[target] -= op.scale;
    }
  });
}

}  // namespace ringside::cpu
