// Attention by blocks of query rows: the scores of a block stay in the cache, and a causal block
// looks only at the keys up to its own end. The probabilities are recomputed in backward from the
// log-sum-exp of their rows (Dao et al. 2022, without the online softmax: whole rows fit here).
// Operations: forward 4, backward 10 B H T^2 D, half of that with a causal mask.
#include <algorithm>
#include <array>
#include <cmath>

#include "core/device/cpu/cpu_kernels.h"
#include "core/device/cpu/parallel.h"
#include "core/device/cpu/vector_math.h"

namespace ringside::cpu {
namespace {

constexpr std::int64_t block_rows = 64;

/// Where the parts of one sample and head lie.
struct Geometry {
  std::int64_t samples, positions, heads, depth;
  float scale;

  explicit Geometry(const Tensor& qkv)
      : samples(qkv.shape()[0]),
        positions(qkv.shape()[1]),
        heads(qkv.shape()[3]),
        depth(qkv.shape()[4]),
        scale(1 / std::sqrt(static_cast<float>(depth))) {}

  std::int64_t width() const { return heads * depth; }
  std::int64_t qkv_stride() const { return 3 * width(); }
  /// First element of q in qkv; k and v follow after one and two widths.
  std::int64_t qkv_offset(std::int64_t sample, std::int64_t head) const {
    return sample * positions * qkv_stride() + head * depth;
  }
  std::int64_t y_offset(std::int64_t sample, std::int64_t head) const {
    return sample * positions * width() + head * depth;
  }
};

struct Softmax {
  float log_sum, factor;
};

/// Scores become exponentials, in place: the probabilities times 1 / factor. The factor is left to
/// the output, which has fewer columns.
Softmax softmax_row(float* row, std::int64_t count) {
  const float most = highest(row, count);
  const float sum = exponentials(row, count, most, row);
  return {most + std::log(sum), 1 / sum};
}

/// p: scores become probabilities; dp: their gradient becomes that of the scores.
void softmax_row_backward(float* __restrict p, float* __restrict dp, std::int64_t count,
                          float log_sum, float dot) {
#pragma omp simd
  for (std::int64_t j = 0; j < count; ++j) {
    p[j] = exponential(p[j] - log_sum);
    dp[j] = p[j] * (dp[j] - dot);
  }
}

float dot_product(const float* __restrict a, const float* __restrict b, std::int64_t count) {
  float sum = 0;
#pragma omp simd reduction(+ : sum)
  for (std::int64_t j = 0; j < count; ++j) sum += a[j] * b[j];
  return sum;
}

void scale_row(float* row, float factor, std::int64_t count) {
#pragma omp simd
  for (std::int64_t j = 0; j < count; ++j) row[j] *= factor;
}

void forward_head(const AttentionForward& op, const Geometry& g, std::int64_t sample,
                  std::int64_t head, float* scores) {
  const float* q = op.qkv.data<float>() + g.qkv_offset(sample, head);
  const float* k = q + g.width();
  const float* v = k + g.width();
  float* y = op.y.data<float>() + g.y_offset(sample, head);
  float* statistics = op.statistics.data<float>() + (sample * g.heads + head) * g.positions;

  std::array<float, block_rows> factors;
  for (std::int64_t begin = 0; begin < g.positions; begin += block_rows) {
    const std::int64_t rows = std::min(block_rows, g.positions - begin);
    const std::int64_t keys = op.causal ? begin + rows : g.positions;
    gemm(1, {.transpose_b = true,
             .m = rows,
             .n = keys,
             .k = g.depth,
             .alpha = g.scale,
             .a = q + begin * g.qkv_stride(),
             .lda = g.qkv_stride(),
             .b = k,
             .ldb = g.qkv_stride(),
             .c = scores,
             .ldc = keys});
    for (std::int64_t r = 0; r < rows; ++r) {
      const std::int64_t seen = op.causal ? begin + r + 1 : keys;
      const Softmax softmax = softmax_row(scores + r * keys, seen);
      statistics[begin + r] = softmax.log_sum;
      factors[static_cast<std::size_t>(r)] = softmax.factor;
      std::fill(scores + r * keys + seen, scores + (r + 1) * keys, 0.0f);
    }
    gemm(1, {.m = rows,
             .n = g.depth,
             .k = keys,
             .a = scores,
             .lda = keys,
             .b = v,
             .ldb = g.qkv_stride(),
             .c = y + begin * g.width(),
             .ldc = g.width()});
    for (std::int64_t r = 0; r < rows; ++r)
      scale_row(y + (begin + r) * g.width(), factors[static_cast<std::size_t>(r)], g.depth);
  }
}

void backward_head(const AttentionBackward& op, const Geometry& g, std::int64_t sample,
                   std::int64_t head, float* p, float* dp) {
  const std::int64_t stride = g.qkv_stride();
  const float* q = op.qkv.data<float>() + g.qkv_offset(sample, head);
  const float* k = q + g.width();
  const float* v = k + g.width();
  float* dq = op.dqkv.data<float>() + g.qkv_offset(sample, head);
  float* dk = dq + g.width();
  float* dv = dk + g.width();
  const float* y = op.y.data<float>() + g.y_offset(sample, head);
  const float* dy = op.dy.data<float>() + g.y_offset(sample, head);
  const float* statistics = op.statistics.data<float>() + (sample * g.heads + head) * g.positions;

  // From the last block, which sees all keys and so overwrites every row of dk and dv, to the
  // first; the others add.
  const std::int64_t last = (g.positions - 1) / block_rows * block_rows;
  for (std::int64_t begin = last; begin >= 0; begin -= block_rows) {
    const std::int64_t rows = std::min(block_rows, g.positions - begin);
    const std::int64_t keys = op.causal ? begin + rows : g.positions;
    const float beta = begin == last ? 0.0f : 1.0f;
    const float* dy_block = dy + begin * g.width();
    const float* q_block = q + begin * stride;
    gemm(1, {.transpose_b = true,
             .m = rows,
             .n = keys,
             .k = g.depth,
             .alpha = g.scale,
             .a = q_block,
             .lda = stride,
             .b = k,
             .ldb = stride,
             .c = p,
             .ldc = keys});
    gemm(1, {.transpose_b = true,
             .m = rows,
             .n = keys,
             .k = g.depth,
             .a = dy_block,
             .lda = g.width(),
             .b = v,
             .ldb = stride,
             .c = dp,
             .ldc = keys});
    for (std::int64_t r = 0; r < rows; ++r) {
      const std::int64_t seen = op.causal ? begin + r + 1 : keys;
      const float* dy_row = dy_block + r * g.width();
      const float dot = dot_product(dy_row, y + (begin + r) * g.width(), g.depth);
      softmax_row_backward(p + r * keys, dp + r * keys, seen, statistics[begin + r], dot);
      std::fill(p + r * keys + seen, p + (r + 1) * keys, 0.0f);
      std::fill(dp + r * keys + seen, dp + (r + 1) * keys, 0.0f);
    }
    gemm(1, {.m = rows,
             .n = g.depth,
             .k = keys,
             .alpha = g.scale,
             .a = dp,
             .lda = keys,
             .b = k,
             .ldb = stride,
             .c = dq + begin * stride,
             .ldc = stride});
    gemm(1, {.transpose_a = true,
             .m = keys,
             .n = g.depth,
             .k = rows,
             .alpha = g.scale,
             .a = dp,
             .lda = keys,
             .b = q_block,
             .ldb = stride,
             .beta = beta,
             .c = dk,
             .ldc = stride});
    gemm(1, {.transpose_a = true,
             .m = keys,
             .n = g.depth,
             .k = rows,
             .a = p,
             .lda = keys,
             .b = dy_block,
             .ldb = g.width(),
             .beta = beta,
             .c = dv,
             .ldc = stride});
  }
}

}  // namespace

void attention_forward(const Context& context, const AttentionForward& op) {
  const Geometry g(op.qkv);
  const Tensor scratch = context.device.tensor(Shape{context.threads, block_rows, g.positions},
                                               MemoryKind::workspace, DType::f32);
  parallel_for(context.threads, g.samples * g.heads, 1,
               [&](std::int64_t begin, std::int64_t end, int thread) {
                 float* scores = scratch.data<float>() + thread * block_rows * g.positions;
                 for (std::int64_t i = begin; i < end; ++i)
                   forward_head(op, g, i / g.heads, i % g.heads, scores);
               });
}

void attention_backward(const Context& context, const AttentionBackward& op) {
  const Geometry g(op.qkv);
  const Tensor scratch = context.device.tensor(Shape{context.threads, 2, block_rows, g.positions},
                                               MemoryKind::workspace, DType::f32);
  parallel_for(context.threads, g.samples * g.heads, 1,
               [&](std::int64_t begin, std::int64_t end, int thread) {
                 float* p = scratch.data<float>() + thread * 2 * block_rows * g.positions;
                 for (std::int64_t i = begin; i < end; ++i)
                   backward_head(op, g, i / g.heads, i % g.heads, p, p + block_rows * g.positions);
               });
}

}  // namespace ringside::cpu
