#include "core/models/mlp.h"

#include <algorithm>

#include "core/base/error.h"
#include "core/nn/layers.h"

namespace ringside {
namespace {

std::int64_t embedding_width(const ModelConfig& c) {
  return std::max<std::int64_t>(4, c.width / c.context);
}

/// Maps int32 [B, context] to [B, context * embedding width].
class MlpEmbedding final : public Unit {
 public:
  MlpEmbedding(const ModelConfig& c, Device& device)
      : Unit("embedding", device),
        context_(c.context),
        table_(*this, "table", c.vocabulary, 0, embedding_width(c), {Init::Kind::normal, 1}) {}

  Tensor forward(const Tensor& tokens, const Pass& pass, Saved& saved) override {
    const Shape& in = tokens.shape();
    if (in.rank() != 2 || in[1] != context_)
      throw Error("unit {}: input {} is not [samples, {}]", name(), in.text(), context_);
    const Tensor y = table_.forward(tokens, pass, saved);
    return y.reshaped({in[0], y.count() / in[0]});
  }

  Tensor backward(const Tensor& grad_output, Saved& saved) override {
    table_.backward(grad_output, saved);
    return {};
  }

 private:
  std::int64_t context_;
  Embedding table_;
};

/// Maps [B, in] to [B, out].
class LinearUnit final : public Unit {
 public:
  LinearUnit(std::string name, std::int64_t in, std::int64_t out, Activation activation,
             Device& device)
      : Unit(std::move(name), device),
        linear_(*this, "linear", in, out, uniform_for(in), uniform_for(in), activation) {}

  Tensor forward(const Tensor& input, const Pass& pass, Saved& saved) override {
    return linear_.forward(input, pass, saved);
  }
  Tensor backward(const Tensor& grad_output, Saved& saved) override {
    return linear_.backward(grad_output, saved);
  }

 private:
  Linear linear_;
};

constexpr naming::Rule mlp_rules[] = {
    {"embedding", "table.tokens", "embedding.weight", naming::Order::tokens},
    {"hidden.*", "linear.weight", "hidden.*.weight"},
    {"hidden.*", "linear.bias", "hidden.*.bias"},
    {"head", "linear.weight", "head.weight"},
    {"head", "linear.bias", "head.bias"},
};

}  // namespace

Model make_mlp(const ModelConfig& config, Device& device) {
  check_sizes(config, {"layers", "width", "context", "vocabulary"});
  Model model;
  model.units.push_back(std::make_unique<MlpEmbedding>(config, device));
  std::int64_t in = config.context * embedding_width(config);
  for (std::int64_t i = 0; i < config.layers; ++i) {
    model.units.push_back(std::make_unique<LinearUnit>(fmt::format("hidden.{}", i), in,
                                                       config.width, Activation::relu, device));
    in = config.width;
  }
  model.units.push_back(
      std::make_unique<LinearUnit>("head", in, config.vocabulary, Activation::none, device));
  model.task = Task::last_token;
  model.input = {config.context};
  model.terms = {{1, config.vocabulary}};
  return model;
}

ModelInfo mlp_info() {
  return {.name = "mlp",
          .summary = "feed-forward language model on a fixed context",
          .make = make_mlp,
          .keys = {"layers", "width", "context", "vocabulary"},
          .names = [](const Model& model, const ModelConfig&) {
            return Names{.tensors = naming::by_rules(model, mlp_rules)};
          }};
}

}  // namespace ringside
