#include <algorithm>
#include <cmath>

#include "core/compress/codes.h"

namespace ringside::compress {
namespace {

constexpr double first_density = 0.25;

/// The code is top-k's, of a sum of velocities. Both states have a value for each element.
class Dgc final : public TensorCodes {
 public:
  explicit Dgc(CompressorContext context) : TensorCodes(std::move(context)) {
    for (Tensor* state : {&velocity_, &sum_}) {
      *state = device().tensor({this->context().count()}, MemoryKind::optimizer);
      kernels().fill({.out = *state});
    }
  }

  void visit_state(const CompressorStateVisitor& visit) override {
    visit({"dgc_velocity", velocity_});
    visit({"dgc_accumulation", sum_});
  }

 private:
  /// The share of elements falls from a quarter to the ratio, by the same factor in every step.
  std::int64_t sent(const Piece& piece) const {
    CompressionOptions now = options();
    const double left =
        now.start_step == 0
            ? 0
            : 1 - std::min(1.0, static_cast<double>(step()) / static_cast<double>(now.start_step));
    now.ratio = std::max(now.ratio, std::pow(first_density, left) * std::pow(now.ratio, 1 - left));
    return sent_of(now, piece.shape);
  }
  std::int64_t bytes(const Piece& piece) const override { return 8 * sent(piece); }

  void encode(const Piece& piece, const Tensor& values, const Tensor& code) override {
    const Tensor velocity = piece.of(velocity_), sum = piece.of(sum_);
    kernels().blend(
        {.in = values, .out = velocity, .out_scale = static_cast<float>(options().dgc_momentum)});
    kernels().add({.in = velocity, .out = sum});
    const Tensor indices = indices_in(piece, code), sent = values_in(piece, code);
    kernels().select_top_k({.in = sum, .indices = indices, .values = sent});
    kernels().add_elements({.in = sent, .indices = indices, .out = sum, .scale = -1});
    const Tensor masked = device().tensor(sent.shape(), MemoryKind::workspace);
    kernels().take_elements({.in = velocity, .indices = indices, .out = masked});
    kernels().add_elements({.in = masked, .indices = indices, .out = velocity, .scale = -1});
  }
  void add(const Piece& piece, const Tensor& code, float scale, const Tensor& out) override {
    kernels().add_elements({.in = values_in(piece, code),
                            .indices = indices_in(piece, code),
                            .out = out,
                            .scale = scale});
  }
  Tensor values_in(const Piece& piece, const Tensor& code) const {
    return within(code, 0, {sent(piece)}, DType::f32);
  }
  Tensor indices_in(const Piece& piece, const Tensor& code) const {
    return within(code, 4 * sent(piece), {sent(piece)}, DType::i32);
  }

  Tensor velocity_, sum_;
};

}  // namespace

/// Deep Gradient Compression (Lin et al., ICLR 2018, algorithms 1 and 2, without its local
/// clipping): each worker keeps a velocity u = m u + g of its gradients and the sum v of these, and
/// sends the elements of v with the largest absolute values, after which they are 0 in u and v. The
/// optimizer should have no momentum of its own. Among N workers a worker sends (N - 1) * k * 8
/// bytes, and more in the first `start_step` steps.
CompressorInfo dgc_info() {
  return {.name = "dgc",
          .summary = "top-k of each worker's sum of velocities, with momentum of its own",
          .has_own_memory = true,
          .in_parts = true,
          .bytes =
              [](const CompressionOptions& options, const Shape& tensor) {
                return 8.0 * static_cast<double>(sent_of(options, tensor));
              },
          .make = make_compressor<Dgc>,
          .lossless = {{"ratio=1", "dgc_momentum=0"}}};
}

}  // namespace ringside::compress
