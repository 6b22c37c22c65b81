#include "core/nn/convolution.h"

#include <cmath>

#include "core/base/error.h"
#include "core/nn/layer_tensors.h"

namespace ringside {
namespace {

Init kaiming(std::int64_t out, const Kernel2d& kernel) {
  const auto fan = static_cast<double>(out * kernel.size.rows * kernel.size.columns);
  return {Init::Kind::normal, static_cast<float>(std::sqrt(2 / fan))};
}

}  // namespace

Convolution::Convolution(Unit& unit, const std::string& name, std::int64_t in, std::int64_t out,
                         Kernel2d kernel, After after, std::optional<Init> weight, Init bias)
    : unit_(unit),
      in_(in),
      out_(out),
      kernel_(kernel),
      after_(after),
      weight_(unit.declare().add(name + ".weight",
                                 {out, kernel.size.rows, kernel.size.columns, in / kernel.groups},
                                 weight.value_or(kaiming(out, kernel)))),
      kept_(unit) {
  if (after != After::nothing) bias_ = unit.declare().add(name + ".bias", {out}, bias);
}

Tensor Convolution::forward(const Tensor& x, const Pass& pass, Saved& saved) {
  const Shape& in = x.shape();
  if (in.rank() != 4 || in[3] != in_)
    throw Error("unit {}: images {} do not have {} channels", unit_.name(), in.text(), in_);
  const auto extent = [&](std::int64_t n, std::int64_t padding, std::int64_t size) {
    return (n + 2 * padding - size) / kernel_.stride + 1;
  };
  const bool relu = after_ == After::bias_and_relu;
  const Tensor y = layer::activation(
      unit_, {in[0], extent(in[1], kernel_.padding.rows, kernel_.size.rows),
              extent(in[2], kernel_.padding.columns, kernel_.size.columns), out_});
  for (std::int64_t r = 0; r < pass.ranks; ++r) {
    ConvolutionForward op{.x = layer::of_rank(x, r, pass.ranks),
                          .weight = unit_.value(weight_),
                          .relu = relu,
                          .stride = kernel_.stride,
                          .padding = kernel_.padding,
                          .y = layer::of_rank(y, r, pass.ranks)};
    if (after_ != After::nothing) op.bias = unit_.value(bias_);
    unit_.device().kernels().convolution_forward(op);
  }
  if (pass.keep) kept_.keep(saved, {x, relu ? y : Tensor{}, pass.ranks});
  return y;
}

Tensor Convolution::backward(const Tensor& dy, Saved& saved, bool wanted) {
  Kept kept = kept_.take(saved);
  const Tensor dx = wanted ? layer::workspace(unit_, kept.x.shape()) : Tensor{};
  for (std::int64_t r = 0; r < kept.ranks && (wanted || !saved.puts_off()); ++r) {
    ConvolutionBackward op = operation(dy, kept, r);
    if (wanted) {
      op.weight = unit_.value(weight_);
      op.dx = layer::of_rank(dx, r, kept.ranks);
    }
    if (!saved.puts_off()) add_weights(op, kept, r);
    unit_.device().kernels().convolution_backward(op);
  }
  if (!saved.puts_off()) return dx;
  if (wanted) kept.y = {};  // `dy` has been through the relu
  saved.put_off([this, kept = std::move(kept), dy] {
    for (std::int64_t r = 0; r < kept.ranks; ++r) {
      ConvolutionBackward op = operation(dy, kept, r);
      add_weights(op, kept, r);
      unit_.device().kernels().convolution_backward(op);
    }
  });
  return dx;
}

ConvolutionBackward Convolution::operation(const Tensor& dy, const Kept& kept,
                                           std::int64_t rank) const {
  return {.dy = layer::of_rank(dy, rank, kept.ranks),
          .y = layer::of_rank(kept.y, rank, kept.ranks),
          .relu = static_cast<bool>(kept.y),
          .stride = kernel_.stride,
          .padding = kernel_.padding};
}

void Convolution::add_weights(ConvolutionBackward& op, const Kept& kept, std::int64_t rank) const {
  op.x = layer::of_rank(kept.x, rank, kept.ranks);
  op.dweight = unit_.gradient(weight_, rank);
  if (after_ != After::nothing) op.dbias = unit_.gradient(bias_, rank);
}

}  // namespace ringside
