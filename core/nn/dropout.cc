#include "core/nn/dropout.h"

#include "core/base/hash.h"
#include "core/nn/layer_tensors.h"

namespace ringside {
namespace {

std::uint32_t number_of(const std::string& layer) {
  Hash hash;
  hash.update(std::as_bytes(std::span(layer)));
  return static_cast<std::uint32_t>(std::stoul(hash.digest().substr(0, 8), nullptr, 16));
}

}  // namespace

DropoutLayer::DropoutLayer(Unit& unit, const std::string& name, double probability)
    : unit_(unit),
      probability_(static_cast<float>(probability)),
      layer_(number_of(unit.name() + "." + name)),
      dropped_(unit) {}

Tensor DropoutLayer::forward(const Tensor& x, std::int64_t samples, const Pass& pass,
                             Saved& saved) {
  if (!pass.training || probability_ == 0) return x;
  Dropout op{.in = x,
             .out = x,
             .probability = probability_,
             .seed = pass.seed,
             .layer = layer_,
             .step = static_cast<std::uint32_t>(pass.step),
             .first = pass.first_sample * (x.count() / samples)};
  unit_.device().kernels().dropout(op);
  op.in = op.out = {};
  if (pass.keep) dropped_.keep(saved, op);
  return x;
}

Tensor DropoutLayer::backward(const Tensor& dy, Saved& saved) {
  if (!dropped_.has(saved)) return dy;
  Dropout op = dropped_.take(saved);
  op.in = dy;
  op.out = layer::workspace(unit_, dy.shape());
  unit_.device().kernels().dropout(op);
  return op.out;
}

}  // namespace ringside
