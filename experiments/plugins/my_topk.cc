// Top-k with error feedback, as a plug-in.
#include <ringside/plugin.h>

using namespace ringside;

namespace {

/// The code: k elements, fp32, and their indices, int32.
class MyTopK final : public compress::TensorCodes {
 public:
  using TensorCodes::TensorCodes;
  static std::int64_t bytes_of(const CompressionOptions& options, const Shape& tensor) {
    return 8 * compress::sent_of(options, tensor);
  }

 private:
  std::int64_t bytes(const Piece& piece) const override { return bytes_of(options(), piece.shape); }
  void encode(const Piece&, const Tensor& values, const Tensor& code) override {
    kernels().select_top_k({.in = values, .indices = indices(code), .values = kept(code)});
  }
  void add(const Piece&, const Tensor& code, float scale, const Tensor& out) override {
    kernels().add_elements(
        {.in = kept(code), .indices = indices(code), .out = out, .scale = scale});
  }
  static Tensor kept(const Tensor& code) {
    return compress::within(code, 0, {code.count() / 8}, DType::f32);
  }
  static Tensor indices(const Tensor& code) {
    return compress::within(code, code.count() / 2, {code.count() / 8}, DType::i32);
  }
};

}  // namespace

RINGSIDE_PLUGIN(compress::codes_info<MyTopK>("my_topk", "the largest elements", {{"ratio=1"}}))
