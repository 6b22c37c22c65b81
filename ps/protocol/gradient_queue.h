// GradientQueue: gradients that have arrived at a chunk and wait for their update.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <vector>

#include "core/tensor/tensor.h"

namespace ringside::ps {

/// A gradient that has arrived, with the version of the values from which it was computed, and the
/// time at which the worker got these values. (With easgd a worker's values; version and time are
/// those of the worker's last exchange.)
struct PushedGradient {
  int worker = 0;
  std::int64_t step = 0;
  std::int64_t push = 0;  // of the step
  std::int64_t update = 0;
  Tensor values;
  std::int64_t read_version = 0;
  double read_at = 0;
  float weight = 1;    // where pushes are merged
  bool first = false;  // of its update
  bool copied = false;
};

/// The gradients of one chunk that belong to no update under way, in the order in which they
/// arrived.
class GradientQueue {
 public:
  void add(PushedGradient gradient);
  bool empty() const { return waiting_.empty(); }
  std::size_t size() const { return waiting_.size(); }
  /// Whether a gradient of the worker is there.
  bool has(int worker) const;
  /// The number of gradients of the update.
  std::size_t count(std::int64_t update) const;

  /// Takes out the worker's gradient of the update; none if it is not there.
  std::optional<PushedGradient> take(int worker, std::int64_t update);
  /// Takes out all that are `chosen`, in their order.
  std::vector<PushedGradient> take_all(
      const std::function<bool(const PushedGradient& gradient)>& chosen);
  /// Replaces each gradient by its `copy`, once.
  void keep(const std::function<Tensor(const Tensor&)>& copy);

 private:
  std::deque<PushedGradient> waiting_;
};

}  // namespace ringside::ps
