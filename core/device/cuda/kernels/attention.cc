// Plain attention: products over the heads of a sample, and a softmax between them. Scores are held
// in memory in fp32, for as many heads at a time as fit into a bounded workspace.
#include <algorithm>

#include "core/device/cuda/kernels/kernels.h"
#include "core/device/cuda/kernels/matmul.h"
#include "core/device/cuda/kernels/softmax.h"
#include "core/device/cuda/kernels/sum_heads.h"
#include "core/device/ops/attention_layout.h"

namespace ringside::cuda {
namespace {

constexpr std::int64_t most_heads = 65535;  // largest y extent of a grid

/// The layout, and how heads of queries go together in products.
struct Geometry : AttentionLayout {
  DType dtype;

  std::int64_t square() const { return queries * keys; }
  bool shared() const { return readers() > 1; }
  /// Elements from the k (or v) of a head of q to that of the next head of q in the same group.
  std::int64_t key_stride() const { return shared() ? 0 : depth; }
  /// The most heads of q that one group may have: all, or those that read the same k and v.
  std::int64_t group() const { return shared() ? readers() : heads; }

  /// Addresses of a head of q, and of the k and the v that it reads.
  std::byte* q(const Tensor& all, std::int64_t sample, std::int64_t head) const {
    return at(all, q_offset(sample, head));
  }
  std::byte* k(const Tensor& all, std::int64_t sample, std::int64_t head) const {
    return at(all, k_offset(sample, head));
  }
  std::byte* v(const Tensor& all, std::int64_t sample, std::int64_t head) const {
    return at(all, v_offset(sample, head));
  }
  std::byte* out(const Tensor& y, std::int64_t sample, std::int64_t head) const {
    return at(y, y_offset(sample, head));
  }
  std::byte* at(const Tensor& tensor, std::int64_t element) const {
    return reinterpret_cast<std::byte*>(tensor.data<std::uint8_t>()) +
           element * static_cast<std::int64_t>(size_of(dtype));
  }
  float* statistics(const Tensor& all, std::int64_t sample, std::int64_t head) const {
    return all.data<float>() + statistics_offset(sample, head);
  }
  /// Address of the biases of a head; null without biases.
  std::byte* bias(const Tensor& all, std::int64_t head) const {
    return all ? at(all, head) : nullptr;
  }
};

/// The operands of both operations; `q` and `kv` are the same tensor if they lie in one.
struct Forward {
  Tensor q, kv, bias;
  bool causal;
  Tensor y, statistics;
};
struct Backward {
  Tensor dy, q, kv, bias;
  bool causal;
  Tensor y, statistics, dq, dkv, dbias;
};

/// Workspace for `count` tensors [heads, T, S] in fp32, for a group of heads. Products read the
/// results of the softmax in the dtype of the operands. If this dtype has 16 bits, `count` more
/// tensors hold these results; if it is fp32, the results overwrite the fp32 tensors.
class Squares {
 public:
  Squares(const Context& context, const Geometry& g, int count, std::int64_t most_bytes)
      : g_(g), single_(g.dtype == DType::f32) {
    const std::int64_t each = g.square() * count * (single_ ? 4 : 6);
    heads_ = std::clamp<std::int64_t>(most_bytes / each, 1, std::min(g.group(), most_heads));
    f32_ = context.device.tensor({count, heads_, g.square()}, MemoryKind::workspace);
    if (!single_)
      rounded_ = context.device.tensor({count, heads_, g.square()}, MemoryKind::workspace, g.dtype);
  }

  std::int64_t heads() const { return heads_; }
  float* f32(int i) const { return f32_.data<float>() + i * heads_ * g_.square(); }
  void* rounded(int i) const {
    if (single_) return f32(i);
    return rounded_.range(i * heads_ * g_.square(), 1).data<std::uint8_t>();
  }

 private:
  const Geometry& g_;
  bool single_;
  std::int64_t heads_;
  Tensor f32_, rounded_;
};

/// square [T, S] = alpha * a * b^T, for a [T, D] and b [S, D] of each head; b is k or v.
Product onto_square(const Geometry& g, std::int64_t heads, float alpha, const void* a,
                    std::int64_t lda, const void* b, float* square) {
  return {.in = g.dtype,
          .out = DType::f32,
          .transpose_b = true,
          .m = g.queries,
          .n = g.keys,
          .k = g.depth,
          .alpha = alpha,
          .a = a,
          .lda = lda,
          .b = b,
          .ldb = g.kv_stride,
          .c = square,
          .ldc = g.keys,
          .batch = heads,
          .stride_a = g.depth,
          .stride_b = g.key_stride(),
          .stride_c = g.square()};
}

/// c = alpha * square * b, for b [S, D] and c [T, D] of each head; b is k or v.
Product from_square(const Geometry& g, std::int64_t heads, float alpha, const void* square,
                    const void* b, void* c, std::int64_t ldc) {
  return {.in = g.dtype,
          .out = g.dtype,
          .m = g.queries,
          .n = g.depth,
          .k = g.keys,
          .alpha = alpha,
          .a = square,
          .lda = g.keys,
          .b = b,
          .ldb = g.kv_stride,
          .c = c,
          .ldc = ldc,
          .batch = heads,
          .stride_a = g.square(),
          .stride_b = g.key_stride(),
          .stride_c = g.depth};
}

/// The gradients of k and v: alpha * square^T * b of each head of q, for b [T, D]. Heads that read
/// the same k and v leave their parts in fp32 workspace, which add_up() sums; otherwise the
/// products are the gradients.
class KeyGradients {
 public:
  KeyGradients(const Context& context, Matmul& matmul, const Geometry& g)
      : context_(context), matmul_(matmul), g_(g) {
    if (g.shared())
      parts_ = context.device.tensor({2, g.readers(), g.keys * g.depth}, MemoryKind::workspace);
  }

  /// `which`: 0 for k, 1 for v. `out` is the gradient of the k or v that head `head` reads.
  void add(int which, std::int64_t head, std::int64_t heads, float alpha, const void* square,
           const void* b, std::int64_t ldb, void* out) {
    Product product{.in = g_.dtype,
                    .out = g_.dtype,
                    .transpose_a = true,
                    .m = g_.keys,
                    .n = g_.depth,
                    .k = g_.queries,
                    .alpha = alpha,
                    .a = square,
                    .lda = g_.keys,
                    .b = b,
                    .ldb = ldb,
                    .c = out,
                    .ldc = g_.kv_stride,
                    .batch = heads,
                    .stride_a = g_.square(),
                    .stride_b = g_.depth,
                    .stride_c = g_.depth};
    if (g_.shared()) {
      product.out = DType::f32;
      product.c = part(which, head % g_.readers());
      product.ldc = g_.depth;
      product.stride_c = g_.keys * g_.depth;
    }
    matmul_.run(product);
    if (g_.shared() && (head + heads) % g_.readers() == 0)
      sum_heads(context_, {.parts = part(which, 0),
                           .out = out,
                           .heads = g_.readers(),
                           .positions = g_.keys,
                           .depth = g_.depth,
                           .stride = g_.kv_stride,
                           .dtype = g_.dtype});
  }

 private:
  float* part(int which, std::int64_t reader) const {
    return parts_.data<float>() + (which * g_.readers() + reader) * g_.keys * g_.depth;
  }

  const Context& context_;
  Matmul& matmul_;
  const Geometry& g_;
  Tensor parts_;  // [k and v, readers, S, D] fp32
};

/// Calls visit(sample, first head, heads) for groups of at most `most` heads of q.
template <class Visit>
void for_each_group(const Geometry& g, std::int64_t most, Visit&& visit) {
  for (std::int64_t sample = 0; sample < g.samples; ++sample)
    for (std::int64_t first = 0; first < g.heads; first += g.group())
      for (std::int64_t head = first; head < first + g.group(); head += most)
        visit(sample, head, std::min(most, first + g.group() - head));
}

template <class Op>
Scores scores_of(const Geometry& g, const Op& op, const Squares& squares, std::int64_t head,
                 std::int64_t heads) {
  return {.products = squares.f32(0),
          .bias = g.bias(op.bias, head),
          .bias_stride = g.heads,
          .heads = heads,
          .queries = g.queries,
          .keys = g.keys,
          .causal = op.causal,
          .dtype = g.dtype};
}

void forward(const Context& context, Matmul& matmul, const Forward& op, const Geometry& g,
             std::int64_t most_bytes) {
  const Squares squares(context, g, 1, most_bytes);
  for_each_group(
      g, squares.heads(), [&](std::int64_t sample, std::int64_t head, std::int64_t heads) {
        const void* q = g.q(op.q, sample, head);
        const void* k = g.k(op.kv, sample, head);
        const void* v = g.v(op.kv, sample, head);
        matmul.run(onto_square(g, heads, g.scale, q, g.q_stride, k, squares.f32(0)));
        softmax_forward(context, {.scores = scores_of(g, op, squares, head, heads),
                                  .p = squares.rounded(0),
                                  .statistics = g.statistics(op.statistics, sample, head)});
        matmul.run(
            from_square(g, heads, 1, squares.rounded(0), v, g.out(op.y, sample, head), g.width()));
      });
}

void backward(const Context& context, Matmul& matmul, const Backward& op, const Geometry& g,
              std::int64_t most_bytes) {
  const Squares squares(context, g, 2, most_bytes);
  KeyGradients gradients(context, matmul, g);
  for_each_group(
      g, squares.heads(), [&](std::int64_t sample, std::int64_t head, std::int64_t heads) {
        const void* q = g.q(op.q, sample, head);
        const void* k = g.k(op.kv, sample, head);
        const void* v = g.v(op.kv, sample, head);
        const void* dy = g.out(op.dy, sample, head);
        matmul.run(onto_square(g, heads, g.scale, q, g.q_stride, k, squares.f32(0)));
        matmul.run(onto_square(g, heads, 1, dy, g.width(), v, squares.f32(1)));
        softmax_backward(context, {.scores = scores_of(g, op, squares, head, heads),
                                   .dp = squares.f32(1),
                                   .statistics = g.statistics(op.statistics, sample, head),
                                   .y = g.out(op.y, sample, head),
                                   .dy = dy,
                                   .y_stride = g.width(),
                                   .depth = g.depth,
                                   .p = squares.rounded(0),
                                   .ds = squares.rounded(1)});
        const void *p = squares.rounded(0), *ds = squares.rounded(1);
        if (op.dbias)
          sum_distances(context, {.ds = ds,
                                  .out = op.dbias.data<float>() + head,
                                  .stride = g.heads,
                                  .heads = heads,
                                  .queries = g.queries,
                                  .keys = g.keys,
                                  .dtype = g.dtype});
        matmul.run(from_square(g, heads, g.scale, ds, k, g.q(op.dq, sample, head), g.q_stride));
        gradients.add(0, head, heads, g.scale, ds, q, g.q_stride, g.k(op.dkv, sample, head));
        gradients.add(1, head, heads, 1, p, dy, g.width(), g.v(op.dkv, sample, head));
      });
}

}  // namespace

void attention_forward(const Context& context, Matmul& matmul, const AttentionForward& op,
                       std::int64_t most_bytes) {
  forward(context, matmul, {op.qkv, op.qkv, {}, op.causal, op.y, op.statistics},
          {packed_attention(op.qkv, op.y), op.y.dtype()}, most_bytes);
}

void attention_backward(const Context& context, Matmul& matmul, const AttentionBackward& op,
                        std::int64_t most_bytes) {
  backward(context, matmul,
           {op.dy, op.qkv, op.qkv, {}, op.causal, op.y, op.statistics, op.dqkv, op.dqkv, {}},
           {packed_attention(op.qkv, op.y), op.y.dtype()}, most_bytes);
}

void cross_attention_forward(const Context& context, Matmul& matmul,
                             const CrossAttentionForward& op, std::int64_t most_bytes) {
  forward(context, matmul, {op.q, op.kv, op.bias, op.causal, op.y, op.statistics},
          {cross_attention(op.q, op.kv, op.scale), op.q.dtype()}, most_bytes);
}

void cross_attention_backward(const Context& context, Matmul& matmul,
                              const CrossAttentionBackward& op, std::int64_t most_bytes) {
  backward(context, matmul,
           {op.dy, op.q, op.kv, op.bias, op.causal, op.y, op.statistics, op.dq, op.dkv, op.dbias},
           {cross_attention(op.q, op.kv, op.scale), op.q.dtype()}, most_bytes);
}

}  // namespace ringside::cuda
