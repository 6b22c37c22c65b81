// Plain attention: products over the heads of a sample, and a softmax between them. Scores are held
// in memory in fp32, for as many heads at a time as fit into a bounded workspace.
#include <algorithm>
#include <cmath>

#include "core/device/cuda/module/kernels.h"
#include "core/device/cuda/module/matmul.h"
#include "core/device/cuda/module/softmax.h"

namespace ringside::cuda {
namespace {

constexpr std::int64_t most_heads = 65535;  // largest y extent of a grid

/// Where the parts of a sample lie in memory. Each position has a row, in which all heads of q lie
/// side by side, then all heads of k, then all heads of v.
struct Geometry {
  std::int64_t samples, positions, heads, depth;
  DType dtype;
  float scale;

  explicit Geometry(const Tensor& qkv)
      : samples(qkv.shape()[0]),
        positions(qkv.shape()[1]),
        heads(qkv.shape()[3]),
        depth(qkv.shape()[4]),
        dtype(qkv.dtype()),
        scale(1 / std::sqrt(static_cast<float>(depth))) {}

  std::int64_t width() const { return heads * depth; }
  std::int64_t row() const { return 3 * width(); }
  std::int64_t square() const { return positions * positions; }

  /// Address of part 0, 1 or 2 (q, k or v) of a head.
  std::byte* part(const Tensor& qkv, std::int64_t sample, std::int64_t head, int part) const {
    return at(qkv, sample * positions * row() + part * width() + head * depth);
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
    heads_ = std::clamp<std::int64_t>(most_bytes / each, 1, std::min(g.heads, most_heads));
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

/// square = alpha * a * b^T, for a and b [T, D] of each head.
Product onto_square(const Geometry& g, std::int64_t heads, float alpha, const void* a,
                    std::int64_t lda, const void* b, std::int64_t ldb, float* square) {
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
          .ldb = ldb,
          .c = square,
          .ldc = g.positions,
          .batch = heads,
          .stride_a = g.depth,
          .stride_b = g.depth,
          .stride_c = g.square()};
}

/// c = alpha * op(square) * b, for b and c [T, D] of each head; op transposes if `transpose`.
Product from_square(const Geometry& g, std::int64_t heads, float alpha, bool transpose,
                    const void* square, const void* b, std::int64_t ldb, void* c,
                    std::int64_t ldc) {
  return {.in = g.dtype,
          .out = g.dtype,
          .transpose_a = transpose,
          .m = g.positions,
          .n = g.depth,
          .k = g.positions,
          .alpha = alpha,
          .a = square,
          .lda = g.positions,
          .b = b,
          .ldb = ldb,
          .c = c,
          .ldc = ldc,
          .batch = heads,
          .stride_a = g.square(),
          .stride_b = g.depth,
          .stride_c = g.depth};
}

/// Calls visit(sample, first head, heads) for groups of at most `most` heads.
template <class Visit>
void for_each_group(const Geometry& g, std::int64_t most, Visit&& visit) {
  for (std::int64_t sample = 0; sample < g.samples; ++sample)
    for (std::int64_t head = 0; head < g.heads; head += most)
      visit(sample, head, std::min(most, g.heads - head));
}

}  // namespace

void attention_forward(const Context& context, Matmul& matmul, const AttentionForward& op,
                       std::int64_t most_bytes) {
  const Geometry g(op.qkv);
  const Squares squares(context, g, 1, most_bytes);
  for_each_group(
      g, squares.heads(), [&](std::int64_t sample, std::int64_t head, std::int64_t heads) {
        const void* q = g.part(op.qkv, sample, head, 0);
        const void* k = g.part(op.qkv, sample, head, 1);
        const void* v = g.part(op.qkv, sample, head, 2);
        matmul.run(onto_square(g, heads, g.scale, q, g.row(), k, g.row(), squares.f32(0)));
        softmax_forward(context, {.scores = squares.f32(0),
                                  .p = squares.rounded(0),
                                  .statistics = g.statistics(op.statistics, sample, head),
                                  .heads = heads,
                                  .positions = g.positions,
                                  .causal = op.causal,
                                  .dtype = g.dtype});
        matmul.run(from_square(g, heads, 1, false, squares.rounded(0), v, g.row(),
                               g.out(op.y, sample, head), g.width()));
      });
}

void attention_backward(const Context& context, Matmul& matmul, const AttentionBackward& op,
                        std::int64_t most_bytes) {
  const Geometry g(op.qkv);
  const Squares squares(context, g, 2, most_bytes);
  for_each_group(
      g, squares.heads(), [&](std::int64_t sample, std::int64_t head, std::int64_t heads) {
        const void* q = g.part(op.qkv, sample, head, 0);
        const void* k = g.part(op.qkv, sample, head, 1);
        const void* v = g.part(op.qkv, sample, head, 2);
        const void* dy = g.out(op.dy, sample, head);
        matmul.run(onto_square(g, heads, g.scale, q, g.row(), k, g.row(), squares.f32(0)));
        matmul.run(onto_square(g, heads, 1, dy, g.width(), v, g.row(), squares.f32(1)));
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
        matmul.run(from_square(g, heads, g.scale, false, ds, k, g.row(),
                               g.part(op.dqkv, sample, head, 0), g.row()));
        matmul.run(from_square(g, heads, g.scale, true, ds, q, g.row(),
                               g.part(op.dqkv, sample, head, 1), g.row()));
        matmul.run(from_square(g, heads, 1, true, p, dy, g.width(),
                               g.part(op.dqkv, sample, head, 2), g.row()));
      });
}

}  // namespace ringside::cuda
