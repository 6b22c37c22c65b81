#include "core/models/inception_block.h"

#include <optional>

#include "core/nn/join_channels.h"
#include "core/nn/pooling.h"

namespace ringside::inception {
namespace {

/// The layers of a branch.
class BranchLayers {
 public:
  BranchLayers(Unit& unit, std::int64_t in, const Branch& branch) : unit_(unit) {
    if (branch.pool == Branch::Pool::average) average_.emplace(unit, Window2d{3, 1, 1});
    if (branch.pool == Branch::Pool::max) max_.emplace(unit, Window2d{3, 2, 0});
    for (const Step& step : branch.path) {
      path_.push_back(make_step(unit, in, step));
      in = step.out;
    }
    for (const Step& step : branch.ends) {
      ends_.push_back(make_step(unit, in, step));
      channels_.push_back(step.out);
    }
    if (branch.ends.empty()) channels_.push_back(in);
  }

  /// Appends the results to `out`.
  void forward(const Tensor& input, const Pass& pass, Saved& saved, std::vector<Tensor>& out) {
    Tensor x = input;
    if (average_) x = average_->forward(x, pass, saved);
    if (max_) x = max_->forward(x, pass, saved);
    for (ConvNorm& step : path_) x = step.forward(x, {}, pass, saved);
    if (ends_.empty()) out.push_back(x);
    for (ConvNorm& end : ends_) out.push_back(end.forward(x, {}, pass, saved));
  }

  /// Returns the gradient of the block's input through this branch. The branch's results begin at
  /// channel `from` of the block's output.
  Tensor backward(const Tensor& grad_output, Saved& saved, std::int64_t from) {
    Tensor d;
    for (std::size_t i = 0; i < channels_.size(); ++i) {
      Tensor part = take_channels(unit_, grad_output, from, channels_[i]);
      from += channels_[i];
      if (!ends_.empty()) part = ends_[i].backward(part, saved);
      if (d)
        unit_.device().kernels().add({.in = part, .out = d});
      else
        d = part;
    }
    for (std::size_t i = path_.size(); i-- > 0;) d = path_[i].backward(d, saved);
    if (average_) d = average_->backward(d, saved);
    if (max_) d = max_->backward(d, saved);
    return d;
  }

 private:
  Unit& unit_;
  std::optional<AverageWindows> average_;
  std::optional<MaxPool> max_;
  std::vector<ConvNorm> path_, ends_;
  std::vector<std::int64_t> channels_;  // of each result
};

class InceptionBlock final : public Unit {
 public:
  InceptionBlock(const std::string& name, std::int64_t in, const std::vector<Branch>& branches,
                 Device& device)
      : Unit(name, device) {
    std::int64_t from = 0;
    for (const Branch& branch : branches) {
      branches_.push_back({BranchLayers(*this, in, branch), from});
      from += branch.channels(in);
    }
  }

  Tensor forward(const Tensor& input, const Pass& pass, Saved& saved) override {
    std::vector<Tensor> results;
    for (auto& [layers, from] : branches_) layers.forward(input, pass, saved, results);
    return join_channels(*this, results);
  }

  Tensor backward(const Tensor& grad_output, Saved& saved) override {
    Tensor sum;
    for (auto& [layers, from] : branches_) {
      const Tensor d = layers.backward(grad_output, saved, from);
      if (sum)
        device().kernels().add({.in = d, .out = sum});
      else
        sum = d;
    }
    return sum;
  }

 private:
  struct Placed {
    BranchLayers layers;
    std::int64_t from;  // the first channel of its results in the block's output
  };
  std::vector<Placed> branches_;
};

}  // namespace

ConvNorm make_step(Unit& unit, std::int64_t in, const Step& step) {
  constexpr float epsilon = 1e-3f;
  constexpr Init weight{Init::Kind::normal, 0.1f};
  return {unit,        step.name + ".conv", step.name + ".bn", in,    step.out,
          step.kernel, /*relu=*/true,       epsilon,           weight};
}

std::int64_t Branch::channels(std::int64_t in) const {
  if (ends.empty()) return path.empty() ? in : path.back().out;
  std::int64_t sum = 0;
  for (const Step& end : ends) sum += end.out;
  return sum;
}

std::unique_ptr<Unit> make_block(const std::string& name, std::int64_t in,
                                 const std::vector<Branch>& branches, Device& device) {
  return std::make_unique<InceptionBlock>(name, in, branches, device);
}

}  // namespace ringside::inception
