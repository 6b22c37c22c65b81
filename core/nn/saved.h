// Saved: what backward needs of one forward of a unit, in its caller's hands.
#pragma once

#include <algorithm>
#include <any>
#include <cstddef>
#include <functional>
#include <utility>
#include <vector>

#include "core/tensor/tensor.h"

namespace ringside {

/// The values of one micro-batch that units of a model hand to later units beside their output, one
/// for each of the model's edges (Model::edges), with their gradients.
class SideValues {
 public:
  struct Value {
    Tensor value{};
    Tensor gradient{};  // empty until a reader's backward has made it
  };
  explicit SideValues(std::size_t edges = 0) : values_(edges) {}

  Value& operator[](std::size_t edge) { return values_[edge]; }
  std::size_t size() const { return values_.size(); }

 private:
  std::vector<Value> values_;
};

/// An object for one unit and one micro-batch. forward() keeps in it what backward() takes out
/// again, so several micro-batches may be under way in a unit, which keeps nothing itself. Freed
/// activations are freed with their last owner. For one thread.
class Saved {
 public:
  /// `side` belongs to the micro-batch and outlives this object.
  explicit Saved(SideValues& side) : side_(&side) {}

  SideValues& side() { return *side_; }

  /// Whether backward() computes the gradient of its input alone and puts the gradients of
  /// parameters off, until finish_weights(): the two halves of Qi et al. 2024. Set before
  /// backward().
  void put_weights_off(bool on) { puts_off_ = on; }
  bool puts_off() const { return puts_off_; }
  /// For layers, in backward(): work on gradients of parameters that finish_weights() does, with
  /// all that it needs but for the unit's gradient range, which may be another by then.
  void put_off(std::function<void()> work) { weights_.push_back(std::move(work)); }
  /// Does such work at once, or puts it off.
  template <class Work>
  void do_weights(Work work) {
    if (puts_off_)
      put_off(std::move(work));
    else
      work();
  }
  /// Does what was put off, in the order of backward(). The unit's gradient range is bound.
  void finish_weights() {
    for (auto& work : std::exchange(weights_, {})) std::exchange(work, {})();
  }
  bool has_put_off() const { return !weights_.empty(); }

  /// Whether nothing is kept and nothing was put off.
  bool empty() const {
    const auto is_kept = [](const std::any& kept) { return kept.has_value(); };
    return weights_.empty() && std::none_of(slots_.begin(), slots_.end(), is_kept);
  }

 private:
  template <class Kept>
  friend class Slot;
  std::any& slot(std::size_t index) {
    if (slots_.size() <= index) slots_.resize(index + 1);
    return slots_[index];
  }

  SideValues* side_;
  bool puts_off_ = false;
  std::vector<std::any> slots_;
  std::vector<std::function<void()>> weights_;
};

}  // namespace ringside
