#include "core/compress/codes.h"

namespace ringside::compress {
namespace {

/// The message: all elements in 16 bits, in which they are also added up.
template <DType half>
class Half final : public Compressor {
 public:
  explicit Half(CompressorContext context) : Compressor(std::move(context)) {}

  Move move() const override { return Move::sum; }
  Form form(int) const override { return {context().count(), half}; }
  void give(int, const Tensor& values, const Tensor& message) override {
    kernels().cast({.in = values, .out = message});
  }
  void take(int, std::span<const Tensor> messages, const Tensor& total) override {
    kernels().cast({.in = messages[0], .out = total});
  }
  void keep(const Tensor&, const Tensor&, const Tensor& values) override {
    const Tensor rounded = device().tensor(values.shape(), MemoryKind::workspace, half);
    const Tensor widened = device().tensor(values.shape(), MemoryKind::workspace);
    kernels().cast({.in = values, .out = rounded});
    kernels().cast({.in = rounded, .out = widened});
    kernels().blend({.in = widened, .out = values, .in_scale = -1, .out_scale = 1});
  }
};

template <DType half>
CompressorInfo half_info(std::string_view name, std::string_view summary) {
  return {.name = name,
          .summary = summary,
          .in_parts = true,
          .stands_alone = true,
          .move = Compressor::Move::sum,
          .summed_in = half,
          .bytes = [](const CompressionOptions&,
                      const Shape& tensor) { return 2.0 * static_cast<double>(tensor.count()); },
          .make = make_compressor<Half<half>>};
}

}  // namespace

CompressorInfo fp16_info() {
  return half_info<DType::f16>("fp16", "16 bits for each element, with 11 significant");
}

CompressorInfo bf16_info() {
  return half_info<DType::bf16>("bf16", "16 bits for each element, with 8 significant");
}

}  // namespace ringside::compress
