// Plain attention: products over the heads of a sample, and a softmax between them. Scores are held
// in memory in fp32, for as many heads at a time as fit into a bounded workspace.
#include <algorithm>
#include <cmath>

#include "core/device/cuda/module/kernels.h"
#include "core/device/cuda/module/matmul.h"
#include "core/device/cuda/module/softmax.h"
#include "core/device/cuda/module/sum_heads.h"

namespace ringside::cuda {
namespace {

constexpr std::int64_t most_heads = 65535;  // largest y extent of a grid

/// Where the parts of a sample lie in memory. Each position has a row, in which all heads of q lie
/// side by side, then all heads of k, then all heads of v.
struct Geometry {
  std::int64_t samples, positions, heads, key_heads, depth;
  DType dtype;
  float scale;

  Geometry(const Tensor& qkv, const Tensor& y)
      : samples(y.shape()[0]),
        positions(y.shape()[1]),
        heads(y.shape()[2]),
        key_heads(key_heads_of(qkv, y)),
        depth(y.shape()[3]),
        dtype(y.dtype()),
        scale(1 / std::sqrt(static_cast<float>(depth))) {}

  std::int64_t width() const { return heads * depth; }
  std::int64_t row() const { return (heads + 2 * key_heads) * depth; }
  std::int64_t square() const { return positions * positions; }
  /// How many heads of q read the same head of k and of v.
  std::int64_t readers() const { return heads / key_heads; }
  bool shared() const { return readers() > 1; }
  /// Elements from the k (or v) of a head of q to that of the next head of q in the same group.
  std::int64_t key_stride() const { return shared() ? 0 : depth; }
  /// The most heads of q that one group may have: all, or those that read the same k and v.
  std::int64_t group() const { return shared() ? readers() : heads; }

  /// Addresses of a head of q, and of the k and the v that it reads.
  std::byte* q(const Tensor& qkv, std::int64_t sample, std::int64_t head) const {
    return at(qkv, sample * positions * row() + head * depth);
  }
  std::byte* k(const Tensor& qkv, std::int64_t sample, std::int64_t head) const {
    return q(qkv, sample, heads + head / readers());
  }
  std::byte* v(const Tensor& qkv, std::int64_t sample, std::int64_t head) const {
    return q(qkv, sample, heads + key_heads + head / readers());
  }
  std::byte* out(const Tensor& y, std::int64_t sample, std::int64_t head) const {
    return at(y, sample * positions * width() + head * depth);
  }
  std::byte* at(const Tensor& tensor, std::int64_t element) const {
    return reinterpret_cast<std::byte*>(tensor.data<std::uint8_t>()) +
           element * static_cast<std::int64_t>(size_of(dtype));
  }
  float* statistics(const Tensor& all, std::int64_t sample, std::int64_t head) const {
    return all.data<float>() + (sample * heads + head) * positions;
  }
};

/// Workspace for `count` tensors [heads, T, T] in fp32, for a group of heads. Products read the
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

/// square = alpha * a * b^T, for a and b [T, D] of each head; b is k or v.
Product onto_square(const Geometry& g, std::int64_t heads, float alpha, const void* a,
                    std::int64_t lda, const void* b, float* square) {
  return {.in = g.dtype,
          .out = DType::f32,
          .transpose_b = true,
          .m = g.positions,
          .n = g.positions,
          .k = g.depth,
          .alpha = alpha,
          .a = a,
          .lda = lda,
          .b = b,
          .ldb = g.row(),
          .c = square,
          .ldc = g.positions,
          .batch = heads,
          .stride_a = g.depth,
          .stride_b = g.key_stride(),
          .stride_c = g.square()};
}

/// c = alpha * square * b, for b and c [T, D] of each head; b is k or v.
Product from_square(const Geometry& g, std::int64_t heads, float alpha, const void* square,
                    const void* b, void* c, std::int64_t ldc) {
  return {.in = g.dtype,
          .out = g.dtype,
          .m = g.positions,
          .n = g.depth,
          .k = g.positions,
          .alpha = alpha,
          .a = square,
          .lda = g.positions,
          .b = b,
          .ldb = g.row(),
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
      parts_ =
          context.device.tensor({2, g.readers(), g.positions * g.depth}, MemoryKind::workspace);
  }

  /// `which`: 0 for k, 1 for v. `out` is the gradient of the k or v that head `head` reads.
  void add(int which, std::int64_t head, std::int64_t heads, float alpha, const void* square,
           const void* b, std::int64_t ldb, void* out) {
    Product product{.in = g_.dtype,
                    .out = g_.dtype,
                    .transpose_a = true,
                    .m = g_.positions,
                    .n = g_.depth,
                    .k = g_.positions,
                    .alpha = alpha,
                    .a = square,
                    .lda = g_.positions,
                    .b = b,
                    .ldb = ldb,
                    .c = out,
                    .ldc = g_.row(),
                    .batch = heads,
                    .stride_a = g_.square(),
                    .stride_b = g_.depth,
                    .stride_c = g_.depth};
    if (g_.shared()) {
      product.out = DType::f32;
      product.c = part(which, head % g_.readers());
      product.ldc = g_.depth;
      product.stride_c = g_.positions * g_.depth;
    }
    matmul_.run(product);
    if (g_.shared() && (head + heads) % g_.readers() == 0)
      sum_heads(context_, {.parts = part(which, 0),
                           .out = out,
                           .heads = g_.readers(),
                           .positions = g_.positions,
                           .depth = g_.depth,
                           .stride = g_.row(),
                           .dtype = g_.dtype});
  }

 private:
  float* part(int which, std::int64_t reader) const {
    return parts_.data<float>() + (which * g_.readers() + reader) * g_.positions * g_.depth;
  }

  const Context& context_;
  Matmul& matmul_;
  const Geometry& g_;
  Tensor parts_;  // [k and v, readers, T, D] fp32
};

/// Calls visit(sample, first head, heads) for groups of at most `most` heads of q.
template <class Visit>
void for_each_group(const Geometry& g, std::int64_t most, Visit&& visit) {
  for (std::int64_t sample = 0; sample < g.samples; ++sample)
    for (std::int64_t first = 0; first < g.heads; first += g.group())
      for (std::int64_t head = first; head < first + g.group(); head += most)
        visit(sample, head, std::min(most, first + g.group() - head));
}

}  // namespace

void attention_forward(const Context& context, Matmul& matmul, const AttentionForward& op,
                       std::int64_t most_bytes) {
  const Geometry g(op.qkv, op.y);
  const Squares squares(context, g, 1, most_bytes);
  for_each_group(
      g, squares.heads(), [&](std::int64_t sample, std::int64_t head, std::int64_t heads) {
        const void* q = g.q(op.qkv, sample, head);
        const void* k = g.k(op.qkv, sample, head);
        const void* v = g.v(op.qkv, sample, head);
        matmul.run(onto_square(g, heads, g.scale, q, g.row(), k, squares.f32(0)));
        softmax_forward(context, {.scores = squares.f32(0),
                                  .p = squares.rounded(0),
                                  .statistics = g.statistics(op.statistics, sample, head),
                                  .heads = heads,
                                  .positions = g.positions,
                                  .causal = op.causal,
                                  .dtype = g.dtype});
        matmul.run(
            from_square(g, heads, 1, squares.rounded(0), v, g.out(op.y, sample, head), g.width()));
      });
}

void attention_backward(const Context& context, Matmul& matmul, const AttentionBackward& op,
                        std::int64_t most_bytes) {
  const Geometry g(op.qkv, op.y);
  const Squares squares(context, g, 2, most_bytes);
  KeyGradients gradients(context, matmul, g);
  for_each_group(
      g, squares.heads(), [&](std::int64_t sample, std::int64_t head, std::int64_t heads) {
        const void* q = g.q(op.qkv, sample, head);
        const void* k = g.k(op.qkv, sample, head);
        const void* v = g.v(op.qkv, sample, head);
        const void* dy = g.out(op.dy, sample, head);
        matmul.run(onto_square(g, heads, g.scale, q, g.row(), k, squares.f32(0)));
        matmul.run(onto_square(g, heads, 1, dy, g.width(), v, squares.f32(1)));
        softmax_backward(context, {.scores = squares.f32(0),
                                   .dp = squares.f32(1),
                                   .statistics = g.statistics(op.statistics, sample, head),
                                   .y = g.out(op.y, sample, head),
                                   .dy = dy,
                                   .y_stride = g.width(),
                                   .depth = g.depth,
                                   .p = squares.rounded(0),
                                   .ds = squares.rounded(1),
                                   .heads = heads,
                                   .positions = g.positions,
                                   .causal = op.causal,
                                   .dtype = g.dtype});
        const void *p = squares.rounded(0), *ds = squares.rounded(1);
        matmul.run(from_square(g, heads, g.scale, ds, k, g.q(op.dqkv, sample, head), g.row()));
        gradients.add(0, head, heads, g.scale, ds, q, g.row(), g.k(op.dqkv, sample, head));
        gradients.add(1, head, heads, 1, p, dy, g.width(), g.v(op.dqkv, sample, head));
      });
}

}  // namespace ringside::cuda
