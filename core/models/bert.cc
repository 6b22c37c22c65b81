#include "core/models/bert.h"

#include "core/base/error.h"
#include "core/models/bert_head.h"
#include "core/models/model_defaults.h"
#include "core/nn/attention.h"
#include "core/nn/dropout.h"
#include "core/nn/layer_tensors.h"
#include "core/nn/sample_parts.h"

namespace ringside {
namespace {

using bert::normal;
using layer::zeros;

/// Maps int32 [B, 2 * context + masked] to [B, context, width].
class BertEmbedding final : public Unit {
 public:
  BertEmbedding(const ModelConfig& c, std::shared_ptr<bert::Asked> asked, Device& device)
      : Unit("embedding", device),
        config_(c),
        asked_(std::move(asked)),
        table_(*this, "table", c.vocabulary, rows_of_positions(c), c.width, normal),
        segments_(*this, "segments", c.segments, 0, c.width, normal),
        norm_(*this, "norm", c.width, epsilon_of(c)),
        dropout_(*this, "dropout", c.dropout) {}

  std::shared_ptr<TiedTable> share() { return table_.share(); }

  Tensor forward(const Tensor& input, const Pass& pass) override {
    const std::int64_t context = config_.context, masked = config_.masked;
    const auto columns = [&](std::int64_t begin, std::int64_t count) {
      return layer::take_part(device(), input, input.shape()[0], begin, count, MemoryKind::data);
    };
    const Shape& in = input.shape();
    if (in.rank() != 2 || in[1] != 2 * context + masked)
      throw Error(
          "unit {}: input has shape {}; it must be [samples, n] with n = {} tokens and segments "
          "plus {} positions",
          name(), in.text(), 2 * context, masked);
    // When this forward is repeated, the head has already taken the positions and needs no others.
    if (!pass.again) asked_->positions = columns(2 * context, masked);
    const Tensor x = table_.forward(columns(0, context), pass);
    const Tensor s = segments_.forward(columns(context, context), pass);
    const Tensor y = norm_.forward(x, s, pass);
    return dropout_.forward(y, in[0], pass).reshaped({in[0], context, config_.width});
  }

  Tensor backward(const Tensor& grad_output) override {
    const Tensor d = norm_.backward(dropout_.backward(grad_output));
    table_.backward(d);
    segments_.backward(d);
    return {};
  }

 private:
  ModelConfig config_;
  std::shared_ptr<bert::Asked> asked_;
  Embedding table_, segments_;
  LayerNorm norm_;
  DropoutLayer dropout_;
};

/// x = norm(x + attention(x)); x = norm(x + mlp(x))
class BertBlock final : public Unit {
 public:
  BertBlock(std::string name, const ModelConfig& c, Device& device)
      : Unit(std::move(name), device),
        attention_(*this, "attention",
                   {.width = c.width,
                    .heads = c.heads,
                    .key_heads = c.heads,
                    .causal = false,
                    .qkv = normal,
                    .out = normal}),
        attention_dropout_(*this, "attention.dropout", c.dropout),
        norm1_(*this, "norm1", c.width, epsilon_of(c)),
        expand_(*this, "mlp.in", c.width, 4 * c.width, normal, zeros, activation_of(c)),
        contract_(*this, "mlp.out", 4 * c.width, c.width, normal, zeros),
        mlp_dropout_(*this, "mlp.dropout", c.dropout),
        norm2_(*this, "norm2", c.width, epsilon_of(c)) {}

  Tensor forward(const Tensor& input, const Pass& pass) override {
    const std::int64_t samples = input.shape()[0];
    Tensor x = attention_.forward(input, samples, pass);
    x = attention_dropout_.forward(x, samples, pass);
    const Tensor between = norm1_.forward(x, input, pass);
    x = expand_.forward(between, pass);
    x = contract_.forward(x, pass);
    x = mlp_dropout_.forward(x, samples, pass);
    return norm2_.forward(x, between, pass).reshaped(input.shape());
  }

  Tensor backward(const Tensor& grad_output) override {
    Tensor around = norm2_.backward(grad_output);
    Tensor d = contract_.backward(mlp_dropout_.backward(around));
    d = expand_.backward(d);
    device().kernels().add({.in = around, .out = d});
    around = norm1_.backward(d);
    d = attention_.backward(attention_dropout_.backward(around));
    device().kernels().add({.in = around, .out = d});
    return d.reshaped(grad_output.shape());
  }

 private:
  SelfAttention attention_;
  DropoutLayer attention_dropout_;
  LayerNorm norm1_;
  Linear expand_, contract_;
  DropoutLayer mlp_dropout_;
  LayerNorm norm2_;
};

}  // namespace

Model make_bert(const ModelConfig& config, Device& device) {
  check_transformer(config);
  check_sizes(config, {"masked", "segments"});
  if (config.masked > config.context)
    throw Error("model.masked = {} is more than model.context = {}; lower it", config.masked,
                config.context);
  Model model;
  const auto asked = std::make_shared<bert::Asked>();
  auto embedding = std::make_unique<BertEmbedding>(config, asked, device);
  auto head = bert::make_head(config, asked, *embedding, embedding->share(), device);
  model.units.push_back(std::move(embedding));
  for (std::int64_t i = 0; i < config.layers; ++i)
    model.units.push_back(std::make_unique<BertBlock>(fmt::format("block.{}", i), config, device));
  model.units.push_back(std::move(head));
  model.task = Task::masked_tokens;
  model.input = {2 * config.context + config.masked};
  model.terms = {{config.masked, config.vocabulary}, {1, 2}};
  return model;
}

}  // namespace ringside
