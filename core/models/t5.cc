#include "core/models/t5.h"

#include <cmath>
#include <utility>

#include "core/base/error.h"
#include "core/models/model_defaults.h"
#include "core/models/t5_blocks.h"
#include "core/nn/decoder_layers.h"
#include "core/nn/dropout.h"
#include "core/nn/layer_tensors.h"
#include "core/nn/layers.h"

namespace ringside {
namespace {

using t5::Shared;
constexpr Init unit_normal{Init::Kind::normal, 1};
constexpr std::int64_t most_elements_of_heads = 1 << 20;

void check_t5(const ModelConfig& c) {
  check_sizes(c, {"layers", "heads", "width", "context", "vocabulary"});
  check_dropout(c);
  const auto at_least = [](std::string_view name, std::int64_t value) {
    if (value < 0)
      throw Error("model.{} = {} is too small; it has to be 1 or more, or 0", name, value);
  };
  at_least("target_context", c.target_context);
  at_least("head_width", c.head_width);
  at_least("hidden", c.hidden);
  if (c.head_width == 0 && c.width % c.heads != 0)
    throw Error(
        "model.heads = {} does not divide model.width = {}; choose a divisor, or set "
        "model.head_width",
        c.heads, c.width);
  if (c.heads * completed(c).head_width > most_elements_of_heads)
    throw Error("model.heads = {} heads of model.head_width = {} have more than {} elements",
                c.heads, c.head_width, most_elements_of_heads);
  if (c.relative_buckets < 4 || c.relative_buckets % 2 != 0)
    throw Error("model.relative_buckets = {}: choose an even number, 4 or more",
                c.relative_buckets);
  if (c.relative_distance <= c.relative_buckets / 2)
    throw Error(
        "model.relative_distance = {} is too small; it has to be more than half of "
        "model.relative_buckets = {}",
        c.relative_distance, c.relative_buckets);
}

/// The table of both sequences. Looks up all source tokens of the micro-batch, then all target
/// tokens, so that the gradient of the table is computed at once.
class T5Embedding final : public Unit {
 public:
  T5Embedding(const ModelConfig& c, std::shared_ptr<Shared> shared, Device& device)
      : Unit("embedding", device),
        source_(c.context),
        target_(c.target_context),
        width_(c.width),
        shared_(std::move(shared)),
        table_(*this, "table", c.vocabulary, 0, c.width, unit_normal),
        source_dropout_(*this, "source.dropout", c.dropout),
        target_dropout_(*this, "target.dropout", c.dropout) {}

  std::shared_ptr<TiedTable> share() { return table_.share(); }

  Tensor forward(const Tensor& input, const Pass& pass) override {
    const Shape& in = input.shape();
    if (in.rank() != 2 || in[1] != source_ + target_)
      throw Error(
          "unit {}: input has shape {}; it must be [samples, n] with n = {} source tokens plus {} "
          "target tokens",
          name(), in.text(), source_, target_);
    const std::int64_t samples = in[0], sources = samples * source_;
    const Tensor all = table_.forward(sorted(input), pass);
    const Tensor source = all.view(0, {samples, source_, width_});
    const Tensor target = all.view(sources * width_, {samples, target_, width_});
    source_dropout_.forward(source, samples, pass);
    target_dropout_.forward(target, samples, pass);
    // When this forward is repeated, the decoder has already read its stream.
    if (!pass.again) shared_->embedded = target;
    return source;
  }

  Tensor backward(const Tensor& grad_output) override {
    const std::int64_t samples = grad_output.shape()[0], sources = samples * source_;
    const Kernels& kernels = device().kernels();
    const Tensor all = layer::workspace(*this, {samples * (source_ + target_), width_});
    const Tensor target = all.range(sources * width_, samples * target_ * width_);
    kernels.copy(
        {.in = source_dropout_.backward(grad_output), .out = all.range(0, sources * width_)});
    if (const Tensor gradient = std::exchange(shared_->embedded_gradient, {}))
      kernels.copy({.in = target_dropout_.backward(gradient), .out = target});
    else
      kernels.fill({.out = target});
    table_.backward(all);
    return {};
  }

 private:
  /// int32 [1, n]: the source tokens of all samples, then the target tokens of all.
  Tensor sorted(const Tensor& input) const {
    const std::int64_t samples = input.shape()[0], both = source_ + target_;
    const Tensor out = device().tensor({1, samples * both}, MemoryKind::data, DType::i32);
    for (std::int64_t b = 0; b < samples; ++b) {
      const Kernels& kernels = device().kernels();
      kernels.copy({.in = input.range(b * both, source_), .out = out.range(b * source_, source_)});
      kernels.copy({.in = input.range(b * both + source_, target_),
                    .out = out.range(samples * source_ + b * target_, target_)});
    }
    return out;
  }

  std::int64_t source_, target_, width_;
  std::shared_ptr<Shared> shared_;
  Embedding table_;
  DropoutLayer source_dropout_, target_dropout_;
};

/// Ends the encoder and begins the decoder.
class Bridge final : public Unit {
 public:
  Bridge(const ModelConfig& c, std::shared_ptr<Shared> shared, Device& device)
      : Unit("bridge", device),
        shared_(std::move(shared)),
        norm_(*this, "norm", c.width, epsilon_of(c)),
        dropout_(*this, "dropout", c.dropout) {}

  Tensor forward(const Tensor& input, const Pass& pass) override {
    const std::int64_t samples = input.shape()[0];
    const Tensor x = dropout_.forward(norm_.forward(input, {}, pass), samples, pass);
    if (!pass.again) shared_->encoded = x.reshaped(input.shape());
    if (pass.training) return shared_->embedded;
    shared_->encoder_bias->values = {};
    return std::exchange(shared_->embedded, {});
  }

  Tensor backward(const Tensor& grad_output) override {
    const Shape shape = shared_->encoded.shape();
    shared_->embedded = shared_->encoded = {};
    shared_->embedded_gradient = grad_output;
    Tensor d = std::exchange(shared_->encoded_gradient, {});
    if (!d) {
      d = layer::workspace(*this, shape);
      device().kernels().fill({.out = d});
    }
    return norm_.backward(dropout_.backward(d)).reshaped(shape);
  }

 private:
  std::shared_ptr<Shared> shared_;
  RmsNorm norm_;
  DropoutLayer dropout_;
};

class T5Head final : public Unit {
 public:
  T5Head(const ModelConfig& c, std::shared_ptr<Shared> shared, T5Embedding& embedding,
         Device& device)
      : Unit("head", device),
        lender_(embedding),
        shared_(std::move(shared)),
        scale_(static_cast<float>(1 / std::sqrt(static_cast<double>(c.width)))),
        norm_(*this, "norm", c.width, epsilon_of(c)),
        dropout_(*this, "dropout", c.dropout),
        logits_(*this, "logits", embedding.share(), std::nullopt) {}

  const Unit* lender() const override { return &lender_; }

  Tensor forward(const Tensor& input, const Pass& pass) override {
    shape_ = input.shape();
    if (!pass.training) shared_->encoded = shared_->decoder_bias->values = {};
    const Tensor x = dropout_.forward(norm_.forward(input, {}, pass), shape_[0], pass);
    const Tensor scaled = layer::activation(*this, x.shape());
    device().kernels().blend({.in = x, .out = scaled, .in_scale = scale_});
    return logits_.forward(scaled, pass);
  }

  Tensor backward(const Tensor& grad_output) override {
    const Tensor scaled = logits_.backward(grad_output);
    const Tensor d = layer::workspace(*this, scaled.shape());
    device().kernels().blend({.in = scaled, .out = d, .in_scale = scale_});
    return norm_.backward(dropout_.backward(d)).reshaped(shape_);
  }

 private:
  const Unit& lender_;
  std::shared_ptr<Shared> shared_;
  float scale_;
  Shape shape_;
  RmsNorm norm_;
  DropoutLayer dropout_;
  Linear logits_;
};

}  // namespace

Model make_t5(const ModelConfig& config, Device& device) {
  check_t5(config);
  const ModelConfig c = completed(config);
  Model model;
  const auto shared = std::make_shared<Shared>();
  auto embedding = std::make_unique<T5Embedding>(c, shared, device);
  auto head = std::make_unique<T5Head>(c, shared, *embedding, device);
  model.units.push_back(std::move(embedding));
  for (std::int64_t i = 0; i < c.layers; ++i)
    model.units.push_back(t5::make_encoder_block(i, c, *shared, device));
  model.units.push_back(std::make_unique<Bridge>(c, shared, device));
  for (std::int64_t i = 0; i < c.layers; ++i)
    model.units.push_back(t5::make_decoder_block(i, c, shared, device));
  model.units.push_back(std::move(head));
  model.task = Task::target_tokens;
  model.input = {c.context + c.target_context};
  model.terms = {{c.target_context, c.vocabulary}};
  return model;
}

}  // namespace ringside
