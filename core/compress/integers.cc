#include "core/compress/codes.h"

namespace ringside::compress {
namespace {

/// The code: a norm for each block, fp32, and 8 or 4 bits for each element. Every tensor, worker
/// and step has random numbers of its own.
template <int bits>
class Integers final : public DenseCodes {
 public:
  using DenseCodes::DenseCodes;

  static std::int64_t bytes_of(const CompressionOptions& options, const Shape& tensor) {
    return 4 * code_blocks(tensor.count(), options.block) +
           code_bytes(tensor.count(), options.block, bits);
  }

 private:
  std::int64_t bytes(const Piece& piece) const override { return bytes_of(options(), piece.shape); }
  void encode(const Piece& piece, const Tensor& values, const Tensor& code) override {
    const auto workers = static_cast<std::uint32_t>(context().workers);
    const auto worker = static_cast<std::uint32_t>(context().worker);
    const std::int64_t count = piece.shape.count(), block = options().block;
    const std::int64_t norms = code_blocks(count, block);
    kernels().quantise(
        {.in = values,
         .codes = within(code, 4 * norms, {code_bytes(count, block, bits)}, DType::u8),
         .norms = within(code, 0, {norms}, DType::f32),
         .block = block,
         .bits = bits,
         .seed = context().seed,
         .number = piece.number * workers + worker,
         .step = step()});
  }
  void add_all(const Piece& piece, std::span<const Tensor> codes, float scale, const Tensor& out,
               bool onto) override {
    const std::int64_t count = piece.shape.count(), block = options().block;
    const std::int64_t norms = code_blocks(count, block);
    kernels().add_quantised(
        {.codes = within_all(codes, 4 * norms, {code_bytes(count, block, bits)}, DType::u8),
         .norms = within_all(codes, 0, {norms}, DType::f32),
         .out = out,
         .block = block,
         .bits = bits,
         .scale = scale,
         .onto = onto});
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
