// Attention by blocks of query rows. The data of a block stays in the cache, and with a causal mask
// a tile of rows computes only with keys up to its own end. Backward recomputes the probabilities
// from the log-sum-exp of their rows (Dao et al. 2022, but without the online softmax, because
// whole rows fit into the cache here). With B samples, H heads of queries, T positions and a head's
// depth of D, forward takes 4 * B * H * T^2 * D operations and backward 10 * B * H * T^2 * D; a
// causal mask halves both. A thread computes the gradients of one head of keys and values, to which
// all heads of queries that read them add in order. The gradient of a bias is added up for each
// sample and head, and then over the samples in order.
#include <algorithm>
#include <cmath>
#include <limits>

#include "core/device/cpu/cpu_kernels.h"
#include "core/device/cpu/parallel.h"
#include "core/device/cpu/tile.h"
#include "core/device/cpu/vector_math.h"
#include "core/device/ops/attention_layout.h"

namespace ringside::cpu {
namespace {

// A multiple of the tile's rows, so that tiles of rows and tiles of keys begin at the same places.
constexpr std::int64_t block_rows = 16 * tile_rows;
// The score of a key that the query does not see; it makes the key's probability 0. It is finite,
// because other scores are subtracted from it.
constexpr float unseen = std::numeric_limits<float>::lowest();

/// The layout, and what a row of scores sees and takes in memory.
struct Geometry : AttentionLayout {
  bool causal;

  /// seen() is the number of keys that a row sees. If a tile of rows ends before row `end`, the
  /// tile computes with padded(end) keys: those that its last row sees, rounded up to whole
  /// vectors.
  std::int64_t seen(std::int64_t row) const { return causal ? row + 1 : keys; }
  std::int64_t padded(std::int64_t end) const { return round_up(seen(end - 1), lanes); }
  /// The number of distances from a query to a key, and the number of the distance from query `row`
  /// to key 0. That to key s is s higher.
  std::int64_t distances() const { return queries + keys - 1; }
  std::int64_t first_distance(std::int64_t row) const { return queries - 1 - row; }

  /// Elements from one row of scores to the next: an odd number of whole vectors, because rows
  /// whose distance is a power of two would share few lines of the cache.
  std::int64_t score_stride() const { return (round_up(keys, lanes) / lanes | 1) * lanes; }
  std::int64_t transposed_size() const { return panels_size(depth, keys); }
  std::int64_t straight_size() const { return panels_size(keys, depth); }
  std::int64_t queries_size() const { return panels_size(queries, depth); }
};

/// The operands of all samples and heads; q and kv may be the same tensor. `bias` [distances,
/// heads] may be null.
struct Forward {
  const float *q, *kv, *bias;
  float *y, *statistics;
};
/// `dbias` [samples, heads, distances] is null if and only if `bias` is; for each sample and head
/// it receives the sums of the gradients of the scores.
struct Backward {
  const float *dy, *q, *kv, *bias, *y, *statistics;
  float *dq, *dkv, *dbias;
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
/// [rows, depth]; m is a matrix [keys, depth], whose transpose `panels` hold. c has only the
/// columns of the keys with which the tile computes: g.padded(end) of them.
void row_products(const Geometry& g, std::int64_t rows, std::int64_t end, const float* a,
                  std::int64_t lda, const float* panels, float* c) {
  const std::int64_t keys = g.padded(end);
  for (std::int64_t j = 0; j < keys; j += tile_columns)
    multiply_tile(rows, std::min(tile_columns, keys - j), g.depth, {a, lda, 1},
                  panels + j * g.depth, c + j, g.score_stride(), false);
}

/// A matrix [rows, depth] of which a product takes the rows from number `first` on.
struct Right {
  const float* panels;
  std::int64_t rows, first;
};

/// Computes c = left * m, or c += left * m with `add`. left is [rows, terms], c is [rows, depth]; m
/// is `terms` rows of `right`.
void depth_products(const Geometry& g, std::int64_t rows, std::int64_t terms, Left left,
                    Right right, float* c, std::int64_t ldc, bool add) {
  for (std::int64_t j = 0; j < g.depth; j += tile_columns)
    multiply_tile(rows, std::min(tile_columns, g.depth - j), terms, left,
                  right.panels + j * right.rows + right.first * tile_columns, c + j, ldc, add);
}

void add_to_row(const float* __restrict from, std::int64_t count, float* __restrict row) {
#pragma omp simd
  for (std::int64_t j = 0; j < count; ++j) row[j] += from[j];
}

/// Writes the biases of one head to `out`, one for each distance.
void take_bias(const Geometry& g, const float* bias, std::int64_t head, float* out) {
  if (!bias) return;
  for (std::int64_t i = 0; i < g.distances(); ++i) out[i] = bias[i * g.heads + head];
}

void forward_head(const Forward& all, const Geometry& g, std::int64_t sample, std::int64_t head,
                  float* scratch) {
  const float* q = all.q + g.q_offset(sample, head);
  const float* k = all.kv + g.k_offset(sample, head);
  const float* v = all.kv + g.v_offset(sample, head);
  float* y = all.y + g.y_offset(sample, head);
  float* statistics = all.statistics + g.statistics_offset(sample, head);
  float* keys = scratch;
  float* values = keys + g.transposed_size();
  float* scores = values + g.straight_size();
  float* bias = scores + tile_rows * g.score_stride();
  pack_transposed(g.depth, g.keys, k, g.kv_stride, g.scale, keys);
  pack_panels(g.keys, g.depth, v, g.kv_stride, values);
  take_bias(g, all.bias, head, bias);

  for (std::int64_t begin = 0; begin < g.queries; begin += tile_rows) {
    const std::int64_t end = std::min(begin + tile_rows, g.queries), rows = end - begin;
    row_products(g, rows, end, q + begin * g.q_stride, g.q_stride, keys, scores);
    float factors[tile_rows];
    for (std::int64_t r = 0; r < rows; ++r) {
      float* row = scores + r * g.score_stride();
      const std::int64_t padded = g.padded(end), seen = g.seen(begin + r);
      if (all.bias) add_to_row(bias + g.first_distance(begin + r), seen, row);
      std::fill(row + seen, row + padded, unseen);
      // Each exponential is a probability times the sum of the row's exponentials. Instead of the
      // row, the output is divided by that sum, because the output has fewer columns.
      const float most = highest(row, padded);
      const float sum = exponentials(row, padded, most, row);
      statistics[begin + r] = most + std::log(sum);
      factors[r] = 1 / sum;
    }
    float* out = y + begin * g.width();
    depth_products(g, rows, g.seen(end - 1), {scores, g.score_stride(), 1}, {values, g.keys, 0},
                   out, g.width(), false);
    for (std::int64_t r = 0; r < rows; ++r) scale_row(out + r * g.width(), factors[r], g.depth);
  }
}

void backward_head(const Backward& all, const Geometry& g, std::int64_t sample, std::int64_t head,
                   float* scratch) {
  const std::int64_t ld = g.score_stride();
  const float* q = all.q + g.q_offset(sample, head);
  const float* k = all.kv + g.k_offset(sample, head);
  const float* v = all.kv + g.v_offset(sample, head);
  float* dq = all.dq + g.q_offset(sample, head);
  float* dk = all.dkv + g.k_offset(sample, head);
  float* dv = all.dkv + g.v_offset(sample, head);
  const float* y = all.y + g.y_offset(sample, head);
  const float* dy = all.dy + g.y_offset(sample, head);
  const float* statistics = all.statistics + g.statistics_offset(sample, head);
  float* dbias = all.bias ? all.dbias + (sample * g.heads + head) * g.distances() : nullptr;
  float* p = scratch;
  float* dp = p + block_rows * ld;
  float* keys_across = dp + block_rows * ld;
  float* values_across = keys_across + g.transposed_size();
  float* keys = values_across + g.transposed_size();
  float* queries = keys + g.straight_size();
  float* slopes = queries + g.queries_size();  // dy
  float* bias = slopes + g.queries_size();
  pack_transposed(g.depth, g.keys, k, g.kv_stride, g.scale, keys_across);
  pack_transposed(g.depth, g.keys, v, g.kv_stride, 1, values_across);
  pack_panels(g.keys, g.depth, k, g.kv_stride, keys);
  pack_panels(g.queries, g.depth, q, g.q_stride, queries);
  pack_panels(g.queries, g.depth, dy, g.width(), slopes);
  take_bias(g, all.bias, head, bias);
  if (dbias) std::fill(dbias, dbias + g.distances(), 0.0f);

  // The last block sees all keys, so that of the first head that reads them overwrites every row of
  // dk and dv. It comes first; all other blocks add to these rows.
  const std::int64_t last = (g.queries - 1) / block_rows * block_rows;
  for (std::int64_t block = last; block >= 0; block -= block_rows) {
    const std::int64_t block_end = std::min(block + block_rows, g.queries);
    const bool add = block != last || head % g.readers() != 0;
    for (std::int64_t begin = block; begin < block_end; begin += tile_rows) {
      const std::int64_t end = std::min(begin + tile_rows, block_end), rows = end - begin;
      const std::int64_t padded = g.padded(end);
      float* p_tile = p + (begin - block) * ld;
      float* dp_tile = dp + (begin - block) * ld;
      row_products(g, rows, end, q + begin * g.q_stride, g.q_stride, keys_across, p_tile);
      row_products(g, rows, end, dy + begin * g.width(), g.width(), values_across, dp_tile);
      for (std::int64_t r = 0; r < rows; ++r) {
        const std::int64_t row = begin + r, seen = g.seen(row), distance = g.first_distance(row);
        if (dbias) add_to_row(bias + distance, seen, p_tile + r * ld);
        std::fill(p_tile + r * ld + seen, p_tile + r * ld + padded, unseen);
        const float dot = dot_product(dy + row * g.width(), y + row * g.width(), g.depth);
        softmax_row_backward(p_tile + r * ld, dp_tile + r * ld, padded, statistics[row], dot,
                             g.scale);
        if (dbias) add_to_row(dp_tile + r * ld, seen, dbias + distance);
      }
      depth_products(g, rows, g.seen(end - 1), {dp_tile, ld, 1}, {keys, g.keys, 0},
                     dq + begin * g.q_stride, g.q_stride, false);
    }
    // Each iteration takes one tile of keys, which begins at `key`. With a causal mask only rows
    // from number `key` on see any of these keys. If row `key` lies in this block, it is the first
    // of a tile of rows, and this tile has scores for all keys of the iteration. So have all later
    // tiles of rows.
    for (std::int64_t key = 0; key < g.seen(block_end - 1); key += tile_rows) {
      const std::int64_t keys_here = std::min(tile_rows, g.keys - key);
      const std::int64_t from = g.causal ? std::max(block, key) : block;
      const std::int64_t rows = block_end - from, at = (from - block) * ld + key;
      depth_products(g, keys_here, rows, {dp + at, 1, ld}, {queries, g.queries, from},
                     dk + key * g.kv_stride, g.kv_stride, add);
      depth_products(g, keys_here, rows, {p + at, 1, ld}, {slopes, g.queries, from},
                     dv + key * g.kv_stride, g.kv_stride, add);
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

void forward(const Context& context, const Forward& all, const Geometry& g) {
  const std::int64_t floats = g.transposed_size() + g.straight_size() +
                              tile_rows * g.score_stride() + (all.bias ? g.distances() : 0);
  with_scratch(context, g.samples * g.heads, floats, [&](std::int64_t i, float* scratch) {
    forward_head(all, g, i / g.heads, i % g.heads, scratch);
  });
}

void backward(const Context& context, const Backward& all, const Geometry& g) {
  const std::int64_t floats = 2 * g.transposed_size() + g.straight_size() + 2 * g.queries_size() +
                              2 * block_rows * g.score_stride() + (all.bias ? g.distances() : 0);
  with_scratch(context, g.samples * g.key_heads, floats, [&](std::int64_t i, float* scratch) {
    const std::int64_t first = i % g.key_heads * g.readers();
    for (std::int64_t head = first; head < first + g.readers(); ++head)
      backward_head(all, g, i / g.key_heads, head, scratch);
  });
}

/// Adds the parts [samples, heads, distances] of the bias's gradient up in the order of the
/// samples, and adds the sums to `out` [distances, heads]. The parts are those of scores times
/// g.scale.
void add_bias_gradients(const Geometry& g, const float* parts, float* out) {
  for (std::int64_t head = 0; head < g.heads; ++head)
    for (std::int64_t i = 0; i < g.distances(); ++i) {
      float sum = 0;
      for (std::int64_t sample = 0; sample < g.samples; ++sample)
        sum += parts[(sample * g.heads + head) * g.distances() + i];
      out[i * g.heads + head] += sum / g.scale;
    }
}

}  // namespace

void attention_forward(const Context& context, const AttentionForward& op) {
  const auto* qkv = op.qkv.data<float>();
  forward(context, {qkv, qkv, nullptr, op.y.data<float>(), op.statistics.data<float>()},
          {packed_attention(op.qkv, op.y), op.causal});
}

void attention_backward(const Context& context, const AttentionBackward& op) {
  const auto* qkv = op.qkv.data<float>();
  auto* dqkv = op.dqkv.data<float>();
  backward(context,
           {op.dy.data<float>(), qkv, qkv, nullptr, op.y.data<float>(), op.statistics.data<float>(),
            dqkv, dqkv, nullptr},
           {packed_attention(op.qkv, op.y), op.causal});
}

void cross_attention_forward(const Context& context, const CrossAttentionForward& op) {
  forward(context,
          {op.q.data<float>(), op.kv.data<float>(), op.bias.data<float>(), op.y.data<float>(),
           op.statistics.data<float>()},
          {cross_attention(op.q, op.kv, op.scale), op.causal});
}

void cross_attention_backward(const Context& context, const CrossAttentionBackward& op) {
  const Geometry g{cross_attention(op.q, op.kv, op.scale), op.causal};
  Tensor parts;
  if (op.bias)
    parts = context.device.tensor({g.samples, g.heads, g.distances()}, MemoryKind::workspace);
  backward(context,
           {op.dy.data<float>(), op.q.data<float>(), op.kv.data<float>(), op.bias.data<float>(),
            op.y.data<float>(), op.statistics.data<float>(), op.dq.data<float>(),
            op.dkv.data<float>(), parts.data<float>()},
           g);
  if (op.bias) add_bias_gradients(g, parts.data<float>(), op.dbias.data<float>());
}

}  // namespace ringside::cpu
