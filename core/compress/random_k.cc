#include "core/compress/codes.h"

namespace ringside::compress {
namespace {

/// The message: k elements of each tensor, fp32. All workers draw the same indices, so that
/// messages add up; every element has the same chance.
class RandomK final : public Compressor {
 public:
  explicit RandomK(CompressorContext context) : Compressor(std::move(context)) {
    for (const Piece& piece : this->context().pieces) {
      const std::int64_t k = sent_of(options(), piece.shape);
      indices_.push_back(device().tensor({k}, MemoryKind::workspace, DType::i32));
      sent_ += k;
    }
  }

  Move move() const override { return Move::sum; }
  Form form(int) const override { return {sent_, DType::f32}; }

  void give(int, const Tensor& values, const Tensor& message) override {
    for_each([&](const Piece& piece, const Tensor& indices, std::int64_t begin) {
      kernels().draw_indices({.indices = indices,
                              .below = piece.shape.count(),
                              .seed = context().seed,
                              .number = piece.number,
                              .step = step()});
      kernels().take_elements({.in = piece.of(values),
                               .indices = indices,
                               .out = message.range(begin, indices.count())});
    });
  }

  /// Without a memory of errors the elements are scaled, so that the mean over all draws is right.
  void take(int, std::span<const Tensor> messages, const Tensor& total) override {
    kernels().fill({.out = total});
    for_each([&](const Piece& piece, const Tensor& indices, std::int64_t begin) {
      const float all = static_cast<float>(piece.shape.count());
      kernels().add_elements(
          {.in = messages[0].range(begin, indices.count()),
           .indices = indices,
           .out = piece.of(total),
           .scale = remembers(options()) ? 1 : all / static_cast<float>(indices.count())});
    });
  }

  void keep(const Tensor&, const Tensor&, const Tensor& values) override {
    for_each([&](const Piece& piece, const Tensor& indices, std::int64_t) {
      const Tensor sent = device().tensor({indices.count()}, MemoryKind::workspace);
      kernels().take_elements({.in = piece.of(values), .indices = indices, .out = sent});
      kernels().add_elements(
          {.in = sent, .indices = indices, .out = piece.of(values), .scale = -1});
    });
  }

 private:
  template <class Visit>
  void for_each(const Visit& visit) const {
    std::int64_t begin = 0;
    for (std::size_t p = 0; p < indices_.size(); ++p) {
      visit(context().pieces[p], indices_[p], begin);
      begin += indices_[p].count();
    }
  }

  std::vector<Tensor> indices_;  // of the present step, by piece
  std::int64_t sent_ = 0;
};

}  // namespace

/// Random-k (Stich et al., NeurIPS 2018), with elements that differ.
/// Among N workers a worker sends 2 * (N - 1) / N * 4 * k bytes, and no indices.
CompressorInfo random_k_info() {
  return {.name = "randomk",
          .summary = "elements of each tensor that all workers draw alike",
          .remembers = true,
          .in_parts = true,
          .move = Compressor::Move::sum,
          .bytes =
              [](const CompressionOptions& options, const Shape& tensor) {
                return 4.0 * static_cast<double>(sent_of(options, tensor));
              },
          .make = make_compressor<RandomK>,
          .lossless = {{"ratio=1"}}};
}

}  // namespace ringside::compress
