#include "core/compress/codes.h"

namespace ringside::compress {
namespace {

std::int64_t sign_bytes(std::int64_t count) { return (count + 7) / 8; }

/// The code: the mean of the absolute values, fp32, and a bit for each sign.
class OneBit final : public DenseCodes {
 public:
  using DenseCodes::DenseCodes;

 private:
  std::int64_t bytes(const Piece& piece) const override {
    return 4 + sign_bytes(piece.shape.count());
  }
  void encode(const Piece&, const Tensor& values, const Tensor& code) override {
    kernels().pack_signs({.in = values,
                          .signs = within(code, 4, {code.count() - 4}, DType::u8),
                          .magnitude = within(code, 0, {1}, DType::f32)});
  }
  void add_all(const Piece& piece, std::span<const Tensor> codes, float scale, const Tensor& out,
               bool onto) override {
    const std::int64_t bytes = sign_bytes(piece.shape.count());
    kernels().add_signs({.signs = within_all(codes, 4, {bytes}, DType::u8),
                         .magnitudes = within_all(codes, 0, {1}, DType::f32),
                         .out = out,
                         .scale = scale,
                         .onto = onto});
  }
};

/// The code: a bit for each sign.
class SignSgd final : public DenseCodes {
 public:
  using DenseCodes::DenseCodes;

  /// The sum becomes the sign of what the most workers voted for; +1 if as many voted against it.
  void take(int round, std::span<const Tensor> messages, const Tensor& total) override {
    DenseCodes::take(round, messages, total);
    for (const Piece& piece : context().pieces) {
      const Tensor votes = piece.of(total);
      const Tensor signs =
          device().tensor({sign_bytes(votes.count())}, MemoryKind::workspace, DType::u8);
      kernels().pack_signs({.in = votes, .signs = signs});
      kernels().add_signs({.signs = {signs}, .out = votes, .onto = false});
    }
  }

 private:
  std::int64_t bytes(const Piece& piece) const override { return sign_bytes(piece.shape.count()); }
  void encode(const Piece&, const Tensor& values, const Tensor& code) override {
    kernels().pack_signs({.in = values, .signs = code});
  }
  void add_all(const Piece&, std::span<const Tensor> codes, float scale, const Tensor& out,
               bool onto) override {
    kernels().add_signs(
        {.signs = {codes.begin(), codes.end()}, .out = out, .scale = scale, .onto = onto});
  }
};

}  // namespace

/// Sign with error feedback (Karimireddy et al., ICML 2019, algorithm 1): each element becomes the
/// mean of the tensor's absolute values, with its own sign. Among N workers a worker sends (N - 1)
/// * (n / 8 + 4) bytes for a tensor of n elements.
CompressorInfo onebit_info() {
  return {.name = "onebit",
          .summary = "the sign of each element, and one magnitude for each tensor",
          .remembers = true,
          .in_parts = true,
          .stands_alone = true,
          .bytes =
              [](const CompressionOptions&, const Shape& tensor) {
                return 4.0 + static_cast<double>(sign_bytes(tensor.count()));
              },
          .make = make_compressor<OneBit>};
}

/// signSGD with majority vote (Bernstein et al., ICML 2018, algorithm 3): the gradient of the step
/// is the sign that most workers have, +1 or -1, so learning rates are those of signSGD. Among N
/// workers a worker sends (N - 1) * n / 8 bytes.
CompressorInfo signsgd_info() {
  return {
      .name = "signsgd",
      .summary = "the sign that most workers have, as a gradient of +1 or -1",
      .estimates_sum = false,
      .in_parts = true,
      .stands_alone = true,
      .bytes = [](const CompressionOptions&,
                  const Shape& tensor) { return static_cast<double>(sign_bytes(tensor.count())); },
      .make = make_compressor<SignSgd>};
}

}  // namespace ringside::compress
