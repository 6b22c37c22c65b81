// The last unit of a decoder: a norm, and a linear layer to the vocabulary.
#pragma once

#include <memory>

#include "core/models/model.h"
#include "core/nn/layers.h"

namespace ringside {

/// Maps the residual stream [B, T, width] to logits [B * T, vocabulary]. `Norm` is LayerNorm or
/// RmsNorm.
template <class Norm>
class DecoderHead final : public Unit {
 public:
  /// The linear layer's weight is `tied`, a table of the unit `embedding`. If `tied` is null, the
  /// layer has a weight of its own that starts as `init` says.
  DecoderHead(const ModelConfig& c, const Unit& embedding, const std::shared_ptr<TiedTable>& tied,
              Init init, Device& device)
      : Unit("head", device),
        lender_(tied ? &embedding : nullptr),
        norm_(*this, "norm", c.width),
        logits_(tied ? Linear(*this, "logits", tied, std::nullopt)
                     : Linear(*this, "logits", c.width, c.vocabulary, init, std::nullopt)) {}

  const Unit* lender() const override { return lender_; }

  Tensor forward(const Tensor& input, const Pass& pass) override {
    shape_ = input.shape();
    const Tensor x = norm_.forward(input, {}, pass);
    return logits_.forward(x, pass);
  }

  Tensor backward(const Tensor& grad_output) override {
    const Tensor d = logits_.backward(grad_output);
    return norm_.backward(d).reshaped(shape_);
  }

 private:
  const Unit* lender_;
  Shape shape_;
  Norm norm_;
  Linear logits_;
};

}  // namespace ringside
