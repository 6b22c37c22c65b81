#include <algorithm>

#include "core/compress/codes.h"

namespace ringside::compress {
namespace {

std::int64_t blocks_of(const CompressionOptions& options, std::int64_t count) {
  return count / options.block + (count % options.block == 0 ? 0 : 1);
}

/// The code: a norm for each block, fp32, and a byte for each element. Every tensor, worker and
/// step has random numbers of its own.
class Int8 final : public TensorCodes {
 public:
  using TensorCodes::TensorCodes;

 private:
  std::int64_t bytes(const Piece& piece) const override {
    return 4 * blocks_of(options(), piece.shape.count()) + piece.shape.count();
  }
  void encode(const Piece& piece, const Tensor& values, const Tensor& code) override {
    const auto workers = static_cast<std::uint32_t>(context().workers);
    const auto worker = static_cast<std::uint32_t>(context().worker);
    kernels().quantise({.in = values,
                        .codes = codes(piece, code),
                        .norms = norms(piece, code),
                        .block = options().block,
                        .seed = context().seed,
                        .number = piece.number * workers + worker,
                        .step = step()});
  }
  void add(const Piece& piece, const Tensor& code, float scale, const Tensor& out) override {
    kernels().add_quantised({.codes = codes(piece, code),
                             .norms = norms(piece, code),
                             .out = out,
                             .block = options().block,
                             .scale = scale});
  }
  Tensor norms(const Piece& piece, const Tensor& code) const {
    return within(code, 0, {blocks_of(options(), piece.shape.count())}, DType::f32);
  }
  Tensor codes(const Piece& piece, const Tensor& code) const {
    const std::int64_t count = piece.shape.count();
    return within(code, 4 * blocks_of(options(), count), {count}, DType::u8);
  }
};

}  // namespace

/// QSGD with 127 levels (Alistarh et al., NeurIPS 2017): each element becomes a multiple of 1/127
/// of its block's largest absolute value, rounded up or down at random so that the mean is right.
/// Among N workers a worker sends (N - 1) * (n + 4 * n / block) bytes.
CompressorInfo int8_info() {
  return {.name = "int8",
          .summary = "8 bits for each element, rounded at random, and a scale for each block",
          .bytes =
              [](const CompressionOptions& options, const Shape& tensor) {
                return static_cast<double>(tensor.count() + 4 * blocks_of(options, tensor.count()));
              },
          .make = make_compressor<Int8>};
}

}  // namespace ringside::compress
