#include "core/models/plain_units.h"

#include "core/models/image_input.h"
#include "core/nn/dropout.h"
#include "core/nn/layers.h"

namespace ringside::plain {
namespace {

class StageUnit final : public Unit {
 public:
  StageUnit(const std::string& name, const ModelConfig& c, bool first,
            const std::vector<Layer>& layers, Window2d pool, double dropout, Device& device)
      : Unit(name, device),
        config_(c),
        first_(first),
        pool_(*this, pool),
        dropout_(*this, "dropout", dropout) {
    for (const Layer& layer : layers)
      convolutions_.emplace_back(*this, layer.name, layer.in, layer.out, layer.kernel,
                                 Convolution::After::bias_and_relu, layer.init,
                                 layer.init.value_or(Init{}));
  }

  Tensor forward(const Tensor& input, const Pass& pass, Saved& saved) override {
    Tensor x = first_ ? image_input(*this, config_, input) : input;
    for (Convolution& convolution : convolutions_) x = convolution.forward(x, pass, saved);
    return dropout_.forward(pool_.forward(x, pass, saved), input.shape()[0], pass, saved);
  }
  Tensor backward(const Tensor& grad_output, Saved& saved) override {
    Tensor d = pool_.backward(dropout_.backward(grad_output, saved), saved);
    for (std::size_t i = convolutions_.size(); i-- > 0;)
      d = convolutions_[i].backward(d, saved, /*wanted=*/i > 0 || !first_);
    return d;
  }

 private:
  ModelConfig config_;
  bool first_;
  std::vector<Convolution> convolutions_;
  MaxPool pool_;
  DropoutLayer dropout_;
};

class DenseUnit final : public Unit {
 public:
  DenseUnit(const Dense& d, Device& device)
      : Unit(d.name, device),
        shape_(*this),
        linear_(*this, d.name, d.in, d.out, d.weight, d.bias,
                d.relu ? Activation::relu : Activation::none),
        dropout_(*this, "dropout", d.dropout) {}

  Tensor forward(const Tensor& input, const Pass& pass, Saved& saved) override {
    if (pass.keep) shape_.keep(saved, input.shape());
    return dropout_.forward(linear_.forward(input, pass, saved), input.shape()[0], pass, saved);
  }
  Tensor backward(const Tensor& grad_output, Saved& saved) override {
    const Tensor d = linear_.backward(dropout_.backward(grad_output, saved), saved);
    return d.reshaped(shape_.take(saved));
  }

 private:
  Slot<Shape> shape_;
  Linear linear_;
  DropoutLayer dropout_;
};

}  // namespace

std::unique_ptr<Unit> make_stage(const std::string& name, const ModelConfig& config, bool first,
                                 const std::vector<Layer>& layers, Window2d pool, double dropout,
                                 Device& device) {
  return std::make_unique<StageUnit>(name, config, first, layers, pool, dropout, device);
}

std::unique_ptr<Unit> make_dense(const Dense& dense, Device& device) {
  return std::make_unique<DenseUnit>(dense, device);
}

}  // namespace ringside::plain
