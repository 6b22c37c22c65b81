#include "peer/fsdp/quantised_weights.h"

#include <algorithm>
#include <utility>

#include "core/device/convert.h"
#include "peer/fsdp/fsdp_units.h"

namespace ringside::peer {

Tensor WeightCodes::norms(std::int64_t count, const Tensor& code) const {
  return {code.buffer(), code.byte_offset(), {code_blocks(count, block_)}, DType::f32};
}

Tensor WeightCodes::elements(std::int64_t count, const Tensor& code) const {
  return code.range(4 * code_blocks(count, block_), count);
}

std::int64_t WeightCodes::bytes(std::int64_t count) const {
  return 4 * code_blocks(count, block_) + (count + 3) / 4 * 4;
}

void WeightCodes::encode(const Tensor& shard, const Tensor& code) const {
  const std::int64_t count = shard.count();
  if (count == 0) return;
  device_.kernels().quantise({.in = converted(device_, shard, DType::f32),
                              .codes = elements(count, code),
                              .norms = norms(count, code),
                              .block = block_,
                              .random = false});
}

void WeightCodes::decode(const Tensor& code, const Tensor& shard) const {
  const std::int64_t count = shard.count();
  if (count == 0) return;
  const bool direct = shard.dtype() == DType::f32;
  const Tensor values = direct ? shard : device_.tensor({count}, MemoryKind::workspace);
  device_.kernels().add_quantised({.codes = {elements(count, code)},
                                   .norms = {norms(count, code)},
                                   .out = values,
                                   .block = block_,
                                   .onto = false});
  if (!direct) device_.kernels().cast({.in = values, .out = shard});
}

namespace {

/// The kept values make room for the others from the first forward after an update to the next
/// update, or until somebody asks for them.
class WithQuantisedWeights final : public SyncScheme {
 public:
  WithQuantisedWeights(const RankContext& context, std::unique_ptr<SyncScheme> inner, int ranks,
                       std::int64_t least, std::int64_t block)
      : SyncScheme(context),
        inner_(std::move(inner)),
        ranks_(ranks),
        least_(least),
        codes_(context.device, block) {}

  void attach(Model& model) override {
    inner_->attach(model);
    model_ = &model;
    // The units of a replica lie one after the other.
    inner_->visit_parameters([&](int, const Unit&, const Tensor& values) {
      if (!values_)
        values_ = {
            values.buffer(), values.byte_offset(), {model.parameter_count()}, values.dtype()};
    });
    kept_ = context().device.tensor(values_.shape(), MemoryKind::workspace, values_.dtype());
  }

  void before_forward(std::size_t unit, const Pass& pass) override {
    inner_->before_forward(unit, pass);
    quantise();
  }
  void after_forward(std::size_t unit, const Pass& pass) override {
    inner_->after_forward(unit, pass);
  }
  void before_backward(std::size_t unit, const Pass& pass) override {
    inner_->before_backward(unit, pass);
  }
  void after_backward(std::size_t unit, const Pass& pass) override {
    inner_->after_backward(unit, pass);
  }
  bool step(const StepInfo& info) override {
    restore();
    return inner_->step(info);
  }
  void drain() override { inner_->drain(); }
  void sum(std::span<double> values) override { inner_->sum(values); }
  void visit_parameters(const ParameterVisitor& visit) override {
    restore();
    inner_->visit_parameters(visit);
  }

 private:
  void quantise() {
    if (std::exchange(quantised_, true)) return;
    const Kernels& kernels = context().device.kernels();
    kernels.copy({.in = values_, .out = kept_});
    const FsdpUnits fsdp_units(*model_, least_);
    for (std::size_t u = 0; u < fsdp_units.size(); ++u) {
      const auto& [name, first, last, begin, count] = fsdp_units[u];
      const std::int64_t each = (count + ranks_ - 1) / ranks_;
      for (std::int64_t at = 0; at < count; at += each) {
        const Tensor shard = values_.range(begin + at, std::min(each, count - at));
        const Tensor code = context().device.tensor({codes_.bytes(shard.count())},
                                                    MemoryKind::workspace, DType::u8);
        codes_.encode(shard, code);
        codes_.decode(code, shard);
      }
    }
  }
  void restore() {
    if (std::exchange(quantised_, false))
      context().device.kernels().copy({.in = kept_, .out = values_});
  }

  std::unique_ptr<SyncScheme> inner_;
  int ranks_;
  std::int64_t least_;
  WeightCodes codes_;
  const Model* model_ = nullptr;
  Tensor values_, kept_;  // of the whole model
  bool quantised_ = false;
};

}  // namespace

std::unique_ptr<SyncScheme> with_quantised_weights(const RankContext& context,
                                                   std::unique_ptr<SyncScheme> inner, int ranks,
                                                   std::int64_t least, std::int64_t block) {
  return std::make_unique<WithQuantisedWeights>(context, std::move(inner), ranks, least, block);
}

}  // namespace ringside::peer
