// Parts that decoders share: their first and last unit, and the list of units.
#pragma once

#include <fmt/format.h>

#include <memory>

#include "core/base/error.h"
#include "core/models/model.h"
#include "core/models/model_defaults.h"
#include "core/nn/dropout.h"
#include "core/nn/layers.h"

namespace ringside {

/// Maps int32 [B, T] to the residual stream [B, T, width], which the units pass on to each other.
class DecoderEmbedding final : public Unit {
 public:
  /// With `positions` 0 there is no table of positions.
  DecoderEmbedding(const ModelConfig& c, std::int64_t positions, double dropout, Init init,
                   Device& device)
      : Unit("embedding", device),
        context_(c.context),
        width_(c.width),
        table_(*this, "table", c.vocabulary, positions, c.width, init),
        dropout_(*this, "dropout", dropout) {}

  std::shared_ptr<TiedTable> share() { return table_.share(); }

  Tensor forward(const Tensor& tokens, const Pass& pass) override {
    const Shape& in = tokens.shape();
    if (in.rank() != 2 || in[1] > context_)
      throw Error("unit {}: input {} is not [samples, positions] of at most {} positions", name(),
                  in.text(), context_);
    const Tensor x = dropout_.forward(table_.forward(tokens, pass), in[0], pass);
    return x.reshaped({in[0], in[1], width_});
  }

  Tensor backward(const Tensor& grad_output) override {
    table_.backward(dropout_.backward(grad_output));
    return {};
  }

 private:
  std::int64_t context_, width_;
  Embedding table_;
  DropoutLayer dropout_;
};

/// Maps the residual stream to logits [B * T, vocabulary]: a norm, and a linear layer without bias.
/// `Norm` is LayerNorm or RmsNorm.
template <class Norm>
class DecoderHead final : public Unit {
 public:
  /// With `tied` the linear layer's weight is the embedding's table; else it has a weight of its
  /// own that starts as `init` says.
  DecoderHead(const ModelConfig& c, DecoderEmbedding& embedding, Init init, Device& device)
      : Unit("head", device),
        lender_(c.tied ? &embedding : nullptr),
        norm_(*this, "norm", c.width, epsilon_of(c)),
        logits_(c.tied ? Linear(*this, "logits", embedding.share(), std::nullopt)
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

/// The embedding, config.layers units Block(name, config, device), and a head.
template <class Block, class Norm>
Model make_decoder(const ModelConfig& config, std::unique_ptr<DecoderEmbedding> embedding,
                   Init init, Device& device) {
  Model model;
  auto head = std::make_unique<DecoderHead<Norm>>(config, *embedding, init, device);
  model.units.push_back(std::move(embedding));
  for (std::int64_t i = 0; i < config.layers; ++i)
    model.units.push_back(std::make_unique<Block>(fmt::format("block.{}", i), config, device));
  model.units.push_back(std::move(head));
  model.task = Task::every_token;
  model.input = {config.context};
  model.terms = {{config.context, config.vocabulary}};
  return model;
}

}  // namespace ringside
