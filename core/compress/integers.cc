#include "core/compress/codes.h"

namespace ringside::compress {
namespace {

/// The code: a norm for each block, fp32, and 8 or 4 bits for each element. Every tensor, worker
/// and step has random numbers of its own.
template <int bits>
class Integers final : public TensorCodes {
 public:
  using TensorCodes::TensorCodes;

  static std::int64_t bytes_of(const CompressionOptions& options, const Shape& tensor) {
    return 4 * code_blocks(tensor.count(), options.block) +
           code_bytes(tensor.count(), options.block, bits);
  }

 private:
  std::int64_t bytes(const Piece& piece) const override { return bytes_of(options(), piece.shape); }
  void encode(const Piece& piece, const Tensor& values, const Tensor& code) override {
    const auto workers = static_cast<std::uint32_t>(context().workers);
    const auto worker = static_cast<std::uint32_t>(context().worker);
    kernels().quantise({.in = values,
                        .codes = codes(piece, code),
                        .norms = norms(piece, code),
                        .block = options().block,
                        .bits = bits,
                        .seed = context().seed,
                        .number = piece.number * workers + worker,
                        .step = step()});
  }
  void add(const Piece& piece, const Tensor& code, float scale, const Tensor& out) override {
    kernels().add_quantised({.codes = codes(piece, code),
                             .norms = norms(piece, code),
                             .out = out,
                             .block = options().block,
                             .bits = bits,
                             .scale = scale});
  }
  std::int64_t blocks(const Piece& piece) const {
    return code_blocks(piece.shape.count(), options().block);
  }
  Tensor norms(const Piece& piece, const Tensor& code) const {
    return within(code, 0, {blocks(piece)}, DType::f32);
  }
  Tensor codes(const Piece& piece, const Tensor& code) const {
    return within(code, 4 * blocks(piece), {code_bytes(piece.shape.count(), options().block, bits)},
                  DType::u8);
  }
};

template <int bits>
CompressorInfo integers_info(std::string_view name, std::string_view summary) {
  auto info = codes_info<Integers<bits>>(name, summary);
  info.remembers = false;
  return info;
}

}  // namespace

/// QSGD with 127 levels (Alistarh et al., NeurIPS 2017): each element becomes a multiple of 1/127
/// of its block's largest absolute value, rounded up or down at random so that the mean is right.
/// Among N workers a worker sends (N - 1) * (n + 4 * n / block) bytes.
CompressorInfo int8_info() {
  return integers_info<8>("int8",
                          "8 bits for each element, rounded at random, and a scale for each block");
}

/// The same with 7 levels: (N - 1) * (n / 2 + 4 * n / block) bytes.
CompressorInfo int4_info() {
  return integers_info<4>("int4",
                          "4 bits for each element, rounded at random, and a scale for each block");
}

}  // namespace ringside::compress
