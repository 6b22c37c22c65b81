#include "core/scheme/optimizer_of_stage.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "core/scheme/pipeline_group.h"
#include "core/scheme/post_validation.h"

namespace ringside {
namespace {

/// Waits for the totals.
class OptimizerOfStage : public Optimizer {
 public:
  OptimizerOfStage(const RankContext& context, std::unique_ptr<Optimizer> inner)
      : context_(context), inner_(std::move(inner)) {}

  int rounds() const override { return inner_->rounds(); }
  std::size_t sums(int round) const override { return inner_->sums(round); }
  std::vector<double> measure(int round, const ParameterRange& range,
                              const StepInfo& info) override {
    return inner_->measure(round, range, info);
  }
  bool settle(int round, std::span<const double> totals, const StepInfo& info) override {
    std::vector<double> all(totals.begin(), totals.end());
    context_.pipeline->sum(all);
    return inner_->settle(round, all, info);
  }
  void update(const ParameterRange& range, const StepInfo& info) override {
    inner_->update(range, info);
  }
  void expect(const ParameterRange& range, const StepInfo& info) override {
    inner_->expect(range, info);
  }
  bool expects() const override { return inner_->expects(); }
  void finish(std::int64_t begin, std::int64_t count) override { inner_->finish(begin, count); }
  std::vector<OptimizerState> state() const override { return inner_->state(); }
  void restored(std::span<const ParameterRange> ranges, std::int64_t skipped) override {
    inner_->restored(ranges, skipped);
  }

 protected:
  const RankContext& context() const { return context_; }
  Optimizer& inner() const { return *inner_; }

 private:
  const RankContext& context_;
  std::unique_ptr<Optimizer> inner_;
};

/// Goes ahead of them.
class EarlyOptimizerOfStage final : public OptimizerOfStage, public EarlyUpdate {
 public:
  EarlyOptimizerOfStage(const RankContext& context, std::unique_ptr<Optimizer> inner,
                        PostValidation& validation)
      : OptimizerOfStage(context, std::move(inner)), validation_(validation) {}

  bool settle(int round, std::span<const double> totals, const StepInfo& info) override {
    info_ = info;
    const auto leaves =
        [this, scale = static_cast<double>(info.loss_scale)](std::span<const double> sums) {
          return leaves_gradients(context().plan.optimizer, sums, scale);
        };
    const std::vector<double> known = validation_.begin(totals, leaves, *this);
    return inner().settle(round, known, info);
  }

  void update(const ParameterRange& range, const StepInfo& info) override {
    if (validation_.has_gone_ahead()) overwritten_.push_back(copies_of(range));
    OptimizerOfStage::update(range, info);
  }

  void confirm() override { overwritten_.clear(); }

  bool put_right(std::span<const double> totals) override {
    const auto span = context().timeline.scope(Activity::optimizer, "optimizer, put right");
    const std::vector<Overwritten> all = std::exchange(overwritten_, {});
    for (const Overwritten& one : all)
      for (const auto& [kept, place] : one.values)
        context().device.kernels().copy({.in = kept, .out = place});
    if (!inner().settle(0, totals, info_)) return false;
    for (const Overwritten& one : all) inner().update(one.range, info_);
    return true;
  }

 private:
  /// A range that has been updated, and copies of what was there, each with its place.
  struct Overwritten {
    ParameterRange range;
    std::vector<std::pair<Tensor, Tensor>> values{};
  };

  Overwritten copies_of(const ParameterRange& range) const {
    Overwritten out{range};
    const auto keep = [&](const Tensor& place) {
      Device& device = context().device;
      const Tensor kept = device.tensor(place.shape(), MemoryKind::optimizer, place.dtype());
      device.kernels().copy({.in = place, .out = kept});
      out.values.emplace_back(kept, place);
    };
    keep(range.parameters);
    for (const OptimizerState& state : inner().state())
      keep(state.values.range(range.begin, range.parameters.count()));
    return out;
  }

  PostValidation& validation_;
  StepInfo info_{};
  std::vector<Overwritten> overwritten_{};
};

}  // namespace

std::unique_ptr<Optimizer> optimizer_of_stage(const RankContext& context,
                                              std::unique_ptr<Optimizer> inner) {
  if (PostValidation* const validation = context.pipeline->validation())
    return std::make_unique<EarlyOptimizerOfStage>(context, std::move(inner), *validation);
  return std::make_unique<OptimizerOfStage>(context, std::move(inner));
}

}  // namespace ringside
