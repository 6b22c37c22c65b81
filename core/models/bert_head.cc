#include "core/models/bert_head.h"

#include "core/models/model.h"
#include "core/models/model_defaults.h"
#include "core/nn/layer_tensors.h"
#include "core/nn/layers.h"
#include "core/nn/take_rows.h"

namespace ringside::bert {
namespace {

using layer::zeros;

class BertHead final : public Unit {
 public:
  BertHead(const ModelConfig& c, const Unit& embedding, std::shared_ptr<TiedTable> tied,
           Device& device)
      : Unit("head", device),
        lender_(embedding),
        terms_{{c.masked, c.vocabulary}, {1, 2}},
        first_(*this),
        pooler_(*this, "pooler", c.width, c.width, normal, zeros, Activation::tanh),
        follows_(*this, "follows", c.width, 2, normal, zeros),
        masked_(*this),
        transform_(*this, "transform", c.width, c.width, normal, zeros, activation_of(c)),
        norm_(*this, "norm", c.width, epsilon_of(c)),
        tokens_(*this, "tokens", std::move(tied), zeros) {}

  const Unit* lender() const override { return &lender_; }

  Tensor forward(const Tensor& input, const Pass& pass, Saved& saved) override {
    const std::int64_t samples = input.shape()[0];
    const Tensor logits = layer::activation(
        *this, {samples * (terms_[0].rows * terms_[0].classes + terms_[1].classes)});
    const auto [of_tokens, of_samples] = parts(logits, samples);
    Tensor x = masked_.forward(input, std::exchange(saved.side()[asked].value, {}), pass, saved);
    x = norm_.forward(transform_.forward(x, pass, saved), {}, pass, saved);
    tokens_.forward(x, pass, saved, of_tokens);
    x = first_.forward(input, first_positions(samples), pass, saved);
    follows_.forward(pooler_.forward(x, pass, saved), pass, saved, of_samples);
    return logits;
  }

  Tensor backward(const Tensor& grad_output, Saved& saved) override {
    const std::int64_t a_sample = terms_[0].rows * terms_[0].classes + terms_[1].classes;
    const auto [of_tokens, of_samples] = parts(grad_output, grad_output.count() / a_sample);
    Tensor d = norm_.backward(tokens_.backward(of_tokens, saved), {}, saved);
    d = masked_.backward(transform_.backward(d, saved), saved);
    const Tensor first =
        first_.backward(pooler_.backward(follows_.backward(of_samples, saved), saved), saved);
    device().kernels().add({.in = first, .out = d});
    return d;
  }

 private:
  std::pair<Tensor, Tensor> parts(const Tensor& logits, std::int64_t samples) const {
    const Shape first{samples * terms_[0].rows, terms_[0].classes};
    return {logits.view(0, first), logits.view(first.count(), {samples, terms_[1].classes})};
  }
  /// int32 [B, 1], all 0. It is filled as fp32, where 0 has the same bits.
  Tensor first_positions(std::int64_t samples) const {
    const Tensor out = device().tensor({samples, 1}, MemoryKind::data);
    device().kernels().fill({.out = out});
    return {out.buffer(), out.byte_offset(), out.shape(), DType::i32};
  }

  const Unit& lender_;
  std::vector<LossTerm> terms_;
  TakeRows first_;
  Linear pooler_, follows_;
  TakeRows masked_;
  Linear transform_;
  LayerNorm norm_;
  Linear tokens_;
};

}  // namespace

std::unique_ptr<Unit> make_head(const ModelConfig& config, const Unit& embedding,
                                std::shared_ptr<TiedTable> tied, Device& device) {
  return std::make_unique<BertHead>(config, embedding, std::move(tied), device);
}

}  // namespace ringside::bert
