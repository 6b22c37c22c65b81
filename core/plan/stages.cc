#include "core/plan/stages.h"

#include <algorithm>
#include <limits>

namespace ringside {
namespace {

constexpr double never = std::numeric_limits<double>::infinity();

/// Divides the last units of a model into stages, for all numbers of stages up to one.
class Division {
 public:
  Division(const std::vector<double>& weights, int stages)
      : units_(weights.size()), stages_(static_cast<std::size_t>(stages)), before_(1, 0.0) {
    for (const double weight : weights) before_.push_back(before_.back() + weight);
  }

  /// The smallest weight that the heaviest of all stages can have.
  double lightest_maximum() {
    return best_of([](double stage, double rest) { return std::max(stage, rest); });
  }

  /// The cuts with the smallest sum of squares of stages that weigh at most `most` each.
  std::vector<std::int64_t> cuts(double most) {
    best_of(
        [most](double stage, double rest) { return stage > most ? never : stage * stage + rest; });
    std::vector<std::int64_t> out;
    for (std::size_t left = stages_, first = 0; left > 1; --left) {
      first = next_[left][first];
      out.push_back(static_cast<std::int64_t>(first));
    }
    return out;
  }

 private:
  double weight(std::size_t first, std::size_t end) const { return before_[end] - before_[first]; }

  /// The best value of all units in all stages. `join` makes the value of a division out of its
  /// first stage's weight and the value of the rest, and grows with both. Of equally good cuts, the
  /// earliest is taken.
  template <class Join>
  double best_of(const Join& join) {
    best_.assign(stages_ + 1, std::vector<double>(units_ + 1, never));
    next_.assign(stages_ + 1, std::vector<std::size_t>(units_ + 1, units_));
    for (std::size_t first = 0; first < units_; ++first)
      best_[1][first] = join(weight(first, units_), 0.0);
    for (std::size_t left = 2; left <= stages_; ++left)
      for (std::size_t first = 0; first + left <= units_; ++first)
        for (std::size_t cut = first + 1; cut + left - 1 <= units_; ++cut)
          take(left, first, cut, join(weight(first, cut), best_[left - 1][cut]));
    return best_[stages_][0];
  }

  void take(std::size_t left, std::size_t first, std::size_t cut, double value) {
    if (value >= best_[left][first]) return;
    best_[left][first] = value;
    next_[left][first] = cut;
  }

  std::size_t units_, stages_;
  std::vector<double> before_;                  // the weight of the units before each
  std::vector<std::vector<double>> best_;       // by the number of stages that are left, and unit
  std::vector<std::vector<std::size_t>> next_;  // the cut behind the first of these stages
};

}  // namespace

std::vector<std::int64_t> balanced_cuts(const std::vector<double>& weights, int stages) {
  Division division(weights, stages);
  return division.cuts(division.lightest_maximum());
}

double heaviest_stage(const std::vector<double>& weights, const std::vector<std::int64_t>& cuts) {
  double most = 0, stage = 0;
  for (std::size_t unit = 0; unit < weights.size(); ++unit) {
    if (std::binary_search(cuts.begin(), cuts.end(), static_cast<std::int64_t>(unit))) stage = 0;
    stage += weights[unit];
    most = std::max(most, stage);
  }
  return most;
}

}  // namespace ringside
