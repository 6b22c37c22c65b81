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

  std::shared_ptr<TiedTable> share(std::size_t edge) { return table_.share(edge); }

  Tensor forward(const Tensor& tokens, const Pass& pass, Saved& saved) override {
    const Shape& in = tokens.shape();
    if (in.rank() != 2 || in[1] > context_)
      throw Error("unit {}: input {} is not [samples, positions] of at most {} positions", name(),
                  in.text(), context_);
    const Tensor x = dropout_.forward(table_.forward(tokens, pass, saved), in[0], pass, saved);
    return x.reshaped({in[0], in[1], width_});
  }

  Tensor backward(const Tensor& grad_output, Saved& saved) override {
    table_.backward(dropout_.backward(grad_output, saved), saved);
    return {};
  }

 private:
  std::int64_t context_, width_;
  Embedding table_;
  DropoutLayer dropout_;
};

/// The edge of a decoder with a tied table, which has no other.
inline constexpr std::size_t decoder_table = 0;

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
        shape_(*this),
        norm_(*this, "norm", c.width, epsilon_of(c)),
        logits_(c.tied ? Linear(*this, "logits", embedding.share(decoder_table), std::nullopt)
                       : Linear(*this, "logits", c.width, c.vocabulary, init, std::nullopt)) {}

  const Unit* lender() const override { return lender_; }

  Tensor forward(const Tensor& input, const Pass& pass, Saved& saved) override {
    if (pass.keep) shape_.keep(saved, input.shape());
    const Tensor x = norm_.forward(input, {}, pass, saved);
    return logits_.forward(x, pass, saved);
  }

  Tensor backward(const Tensor& grad_output, Saved& saved) override {
    const Tensor d = logits_.backward(grad_output, saved);
    return norm_.backward(d, {}, saved).reshaped(shape_.take(saved));
  }

 private:
  const Unit* lender_;
  Slot<Shape> shape_;
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
  if (config.tied) model.edges = {{"table", Edge::Kind::table, 0, model.units.size() - 1}};
  model.task = Task::every_token;
  model.input = {config.context};
  model.terms = {{config.context, config.vocabulary}};
  return model;
}

}  // namespace ringside
