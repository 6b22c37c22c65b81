// Attention by blocks of query rows. The data of a block stays in the cache, and with a causal mask
// a tile of rows computes only with keys up to its own end. Backward recomputes the probabilities
// from the log-sum-exp of their rows (Dao et al. 2022, but without the online softmax, because
// whole rows fit into the cache here). With B samples, H heads of queries, T positions and a head's
// depth of D, forward takes 4 * B * H * T^2 * D operations and backward 10 * B * H * T^2 * D; a
// causal mask halves both. A thread computes the gradients of one head of keys and values, to which
// all heads of queries that read them add in order.
#include <algorithm>
#include <cmath>
#include <limits>

#include "core/device/cpu/cpu_kernels.h"
#include "core/device/cpu/parallel.h"
#include "core/device/cpu/tile.h"
#include "core/device/cpu/vector_math.h"

namespace ringside::cpu {
namespace {

// A multiple of the tile's rows, so that tiles of rows and tiles of keys begin at the same places.
constexpr std::int64_t block_rows = 16 * tile_rows;
// The score of a key that the query does not see; it makes the key's probability 0. It is finite,
// because other scores are subtracted from it.
constexpr float unseen = std::numeric_limits<float>::lowest();

/// Where the parts of one sample and head lie in memory.
struct Geometry {
  std::int64_t samples, positions, heads, key_heads, depth;
  bool causal;
  float scale;

  Geometry(const Tensor& qkv, const Tensor& y, bool is_causal)
      : samples(y.shape()[0]),
        positions(y.shape()[1]),
        heads(y.shape()[2]),
        key_heads(key_heads_of(qkv, y)),
        depth(y.shape()[3]),
        causal(is_causal),
        scale(1 / std::sqrt(static_cast<float>(depth))) {}

  std::int64_t width() const { return heads * depth; }
  std::int64_t qkv_stride() const { return (heads + 2 * key_heads) * depth; }
  /// Number of heads of queries that read the same keys and values.
  std::int64_t readers() const { return heads / key_heads; }
  /// Offsets in qkv of the first elements of q, k and v for a head of queries.
  std::int64_t q_offset(std::int64_t sample, std::int64_t head) const {
    return sample * positions * qkv_stride() + head * depth;
  }
  std::int64_t k_offset(std::int64_t sample, std::int64_t head) const {
    return q_offset(sample, heads + head / readers());
  }
  std::int64_t v_offset(std::int64_t sample, std::int64_t head) const {
    return k_offset(sample, head) + key_heads * depth;
  }
  std::int64_t y_offset(std::int64_t sample, std::int64_t head) const {
    return sample * positions * width() + head * depth;
  }
  /// seen() is the number of keys that a row sees. If a tile of rows ends before row `end`, the
  /// tile computes with padded(end) keys: those that its last row sees, rounded up to whole
  /// vectors.
  std::int64_t seen(std::int64_t row) const { return causal ? row + 1 : positions; }
  std::int64_t padded(std::int64_t end) const { return round_up(seen(end - 1), lanes); }

  /// Elements from one row of scores to the next: an odd number of whole vectors, because rows
  /// whose distance is a power of two would share few lines of the cache.
  std::int64_t score_stride() const { return (round_up(positions, lanes) / lanes | 1) * lanes; }
  std::int64_t transposed_size() const { return panels_size(depth, positions); }
  std::int64_t straight_size() const { return panels_size(positions, depth); }
};

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

/// Turns the scores in `p` into probabilities, and the gradient of the probabilities in `dp` into
/// the gradient of the scores before they are multiplied by `scale`. `count` is a multiple of the
/// vector length, so the loop has no remainder.
void softmax_row_backward(float* __restrict p, float* __restrict dp, std::int64_t count,
                          float log_sum, float dot, float scale) {
  count = count / lanes * lanes;
#pragma omp simd
  for (std::int64_t j = 0; j < count; ++j) {
    p[j] = exponential(p[j] - log_sum);
    dp[j] = p[j] * ((dp[j] - dot) * scale);
  }
}

/// Computes c = a * transpose of m for the rows of a tile that ends before row `end`. a is
/// [rows, depth]; m is a matrix [positions, depth], whose transpose `panels` hold. c has only the
/// columns of the keys with which the tile computes: g.padded(end) of them.
void row_products(const Geometry& g, std::int64_t rows, std::int64_t end, const float* a,
                  std::int64_t lda, const float* panels, float* c) {
  const std::int64_t keys = g.padded(end);
  for (std::int64_t j = 0; j < keys; j += tile_columns)
    multiply_tile(rows, std::min(tile_columns, keys - j), g.depth, {a, lda, 1},
                  panels + j * g.depth, c + j, g.score_stride(), false);
}

/// Computes c = left * m, or c += left * m with `add`. left is [rows, keys], c is [rows, depth].
/// m is the rows [first, first + keys) of the matrix [positions, depth] that `panels` hold.
void depth_products(const Geometry& g, std::int64_t rows, std::int64_t keys, Left left,
                    const float* panels, std::int64_t first, float* c, std::int64_t ldc, bool add) {
  for (std::int64_t j = 0; j < g.depth; j += tile_columns)
    multiply_tile(rows, std::min(tile_columns, g.depth - j), keys, left,
                  panels + j * g.positions + first * tile_columns, c + j, ldc, add);
}

void forward_head(const AttentionForward& op, const Geometry& g, std::int64_t sample,
                  std::int64_t head, float* scratch) {
  const float* q = op.qkv.data<float>() + g.q_offset(sample, head);
  const float* k = op.qkv.data<float>() + g.k_offset(sample, head);
  const float* v = op.qkv.data<float>() + g.v_offset(sample, head);
  float* y = op.y.data<float>() + g.y_offset(sample, head);
  float* statistics = op.statistics.data<float>() + (sample * g.heads + head) * g.positions;
  float* keys = scratch;
  float* values = keys + g.transposed_size();
  float* scores = values + g.straight_size();
  pack_transposed(g.depth, g.positions, k, g.qkv_stride(), g.scale, keys);
  pack_panels(g.positions, g.depth, v, g.qkv_stride(), values);

  for (std::int64_t begin = 0; begin < g.positions; begin += tile_rows) {
    const std::int64_t end = std::min(begin + tile_rows, g.positions), rows = end - begin;
    row_products(g, rows, end, q + begin * g.qkv_stride(), g.qkv_stride(), keys, scores);
    float factors[tile_rows];
    for (std::int64_t r = 0; r < rows; ++r) {
      float* row = scores + r * g.score_stride();
      const std::int64_t padded = g.padded(end);
      std::fill(row + g.seen(begin + r), row + padded, unseen);
      // Each exponential is a probability times the sum of the row's exponentials. Instead of the
      // row, the output is divided by that sum, because the output has fewer columns.
      const float most = highest(row, padded);
      const float sum = exponentials(row, padded, most, row);
      statistics[begin + r] = most + std::log(sum);
      factors[r] = 1 / sum;
    }
    float* out = y + begin * g.width();
    depth_products(g, rows, g.seen(end - 1), {scores, g.score_stride(), 1}, values, 0, out,
                   g.width(), false);
    for (std::int64_t r = 0; r < rows; ++r) scale_row(out + r * g.width(), factors[r], g.depth);
  }
}

void backward_head(const AttentionBackward& op, const Geometry& g, std::int64_t sample,
                   std::int64_t head, float* scratch) {
  const std::int64_t stride = g.qkv_stride(), ld = g.score_stride();
  const float* q = op.qkv.data<float>() + g.q_offset(sample, head);
  const float* k = op.qkv.data<float>() + g.k_offset(sample, head);
  const float* v = op.qkv.data<float>() + g.v_offset(sample, head);
  float* dq = op.dqkv.data<float>() + g.q_offset(sample, head);
  float* dk = op.dqkv.data<float>() + g.k_offset(sample, head);
  float* dv = op.dqkv.data<float>() + g.v_offset(sample, head);
  const float* y = op.y.data<float>() + g.y_offset(sample, head);
  const float* dy = op.dy.data<float>() + g.y_offset(sample, head);
  const float* statistics = op.statistics.data<float>() + (sample * g.heads + head) * g.positions;
  float* p = scratch;
  float* dp = p + block_rows * ld;
  float* keys_across = dp + block_rows * ld;
  float* values_across = keys_across + g.transposed_size();
  float* keys = values_across + g.transposed_size();
  float* queries = keys + g.straight_size();
  float* slopes = queries + g.straight_size();  // dy
  pack_transposed(g.depth, g.positions, k, stride, g.scale, keys_across);
  pack_transposed(g.depth, g.positions, v, stride, 1, values_across);
  pack_panels(g.positions, g.depth, k, stride, keys);
  pack_panels(g.positions, g.depth, q, stride, queries);
  pack_panels(g.positions, g.depth, dy, g.width(), slopes);

  // The last block sees all keys, so that of the first head that reads them overwrites every row of
  // dk and dv. It comes first; all other blocks add to these rows.
  const std::int64_t last = (g.positions - 1) / block_rows * block_rows;
  for (std::int64_t block = last; block >= 0; block -= block_rows) {
    const std::int64_t block_end = std::min(block + block_rows, g.positions);
    const bool add = block != last || head % g.readers() != 0;
    for (std::int64_t begin = block; begin < block_end; begin += tile_rows) {
      const std::int64_t end = std::min(begin + tile_rows, block_end), rows = end - begin;
      const std::int64_t padded = g.padded(end);
      float* p_tile = p + (begin - block) * ld;
      float* dp_tile = dp + (begin - block) * ld;
      row_products(g, rows, end, q + begin * stride, stride, keys_across, p_tile);
      row_products(g, rows, end, dy + begin * g.width(), g.width(), values_across, dp_tile);
      for (std::int64_t r = 0; r < rows; ++r) {
        const std::int64_t row = begin + r, seen = g.seen(row);
        std::fill(p_tile + r * ld + seen, p_tile + r * ld + padded, unseen);
        const float dot = dot_product(dy + row * g.width(), y + row * g.width(), g.depth);
        softmax_row_backward(p_tile + r * ld, dp_tile + r * ld, padded, statistics[row], dot,
                             g.scale);
      }
      depth_products(g, rows, g.seen(end - 1), {dp_tile, ld, 1}, keys, 0, dq + begin * stride,
                     stride, false);
    }
    // Each iteration takes one tile of keys, which begins at `key`. With a causal mask only rows
    // from number `key` on see any of these keys. If row `key` lies in this block, it is the first
    // of a tile of rows, and this tile has scores for all keys of the iteration. So have all later
    // tiles of rows.
    for (std::int64_t key = 0; key < g.seen(block_end - 1); key += tile_rows) {
      const std::int64_t keys_here = std::min(tile_rows, g.positions - key);
      const std::int64_t from = g.causal ? std::max(block, key) : block;
      const std::int64_t rows = block_end - from, at = (from - block) * ld + key;
      depth_products(g, keys_here, rows, {dp + at, 1, ld}, queries, from, dk + key * stride, stride,
                     add);
      depth_products(g, keys_here, rows, {p + at, 1, ld}, slopes, from, dv + key * stride, stride,
                     add);
    }
  }
}

/// Runs body(i, scratch) for each i below `count`; each thread has scratch memory for `floats`
/// values.
template <class Body>
void with_scratch(const Context& context, std::int64_t count, std::int64_t floats, Body body) {
  const Tensor scratch = context.device.tensor(Shape{context.threads, round_up(floats, lanes)},
                                               MemoryKind::workspace, DType::f32);
  parallel_for(context.threads, count, 1, [&](std::int64_t begin, std::int64_t end, int thread) {
    float* mine = scratch.data<float>() + thread * scratch.shape()[1];
    for (std::int64_t i = begin; i < end; ++i) body(i, mine);
  });
}

}  // namespace

void attention_forward(const Context& context, const AttentionForward& op) {
  const Geometry g(op.qkv, op.y, op.causal);
  const std::int64_t floats =
      g.transposed_size() + g.straight_size() + tile_rows * g.score_stride();
  with_scratch(context, g.samples * g.heads, floats, [&](std::int64_t i, float* scratch) {
    forward_head(op, g, i / g.heads, i % g.heads, scratch);
  });
}

void attention_backward(const Context& context, const AttentionBackward& op) {
  const Geometry g(op.qkv, op.y, op.causal);
  const std::int64_t floats =
      2 * g.transposed_size() + 3 * g.straight_size() + 2 * block_rows * g.score_stride();
  with_scratch(context, g.samples * g.key_heads, floats, [&](std::int64_t i, float* scratch) {
    const std::int64_t first = i % g.key_heads * g.readers();
    for (std::int64_t head = first; head < first + g.readers(); ++head)
      backward_head(op, g, i / g.key_heads, head, scratch);
  });
}

}  // namespace ringside::cpu
