#include "core/compress/codes.h"

namespace ringside::compress {
namespace {

/// The code: k elements, fp32, and their indices, int32.
class TopK final : public TensorCodes {
 public:
  using TensorCodes::TensorCodes;

 private:
  std::int64_t bytes(const Piece& piece) const override {
    return 8 * sent_of(options(), piece.shape);
  }
  void encode(const Piece& piece, const Tensor& values, const Tensor& code) override {
    const std::int64_t k = sent_of(options(), piece.shape);
    kernels().select_top_k({.in = values,
                            .indices = within(code, 4 * k, {k}, DType::i32),
                            .values = within(code, 0, {k}, DType::f32)});
  }
  void add(const Piece& piece, const Tensor& code, float scale, const Tensor& out) override {
    const std::int64_t k = sent_of(options(), piece.shape);
    kernels().add_elements({.in = within(code, 0, {k}, DType::f32),
                            .indices = within(code, 4 * k, {k}, DType::i32),
                            .out = out,
                            .scale = scale});
  }
};

}  // namespace

/// Top-k (Aji and Heafield, EMNLP 2017): of each tensor the elements with the largest absolute
/// values. Among N workers a worker sends (N - 1) * k * 8 bytes.
CompressorInfo top_k_info() {
  return {.name = "topk",
          .summary = "the elements of each tensor with the largest absolute values",
          .remembers = true,
          .in_parts = true,
          .stands_alone = true,
          .bytes =
              [](const CompressionOptions& options, const Shape& tensor) {
                return 8.0 * static_cast<double>(sent_of(options, tensor));
              },
          .make = make_compressor<TopK>,
          .lossless = {{"ratio=1"}}};
}

}  // namespace ringside::compress
