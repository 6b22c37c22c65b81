// The place of each parameter in the one contiguous range of its unit.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/tensor/shape.h"

namespace ringside {

/// Initial value of a parameter: every element is a function of the seed and its position
/// (core/num/random.h).
struct Init {
  enum class Kind : std::uint8_t { constant, normal, uniform };
  Kind kind = Kind::constant;
  /// The constant, the standard deviation, or the half-width of an interval around 0.
  float value = 0;
};

/// One named parameter, which is elements [begin, begin + shape.count()) of the unit's range.
struct Parameter {
  std::string name;
  Shape shape;
  Init init;
  std::int64_t begin = 0;
};

/// The parameters of a unit in the order of their declaration, without gaps.
class Layout {
 public:
  /// Declares the next parameter and returns its index.
  std::size_t add(std::string name, Shape shape, Init init) {
    parameters_.push_back({std::move(name), shape, init, count_});
    count_ += shape.count();
    return parameters_.size() - 1;
  }

  const std::vector<Parameter>& parameters() const { return parameters_; }
  /// Number of elements of the whole range.
  std::int64_t count() const { return count_; }

 private:
  std::vector<Parameter> parameters_;
  std::int64_t count_ = 0;
};

}  // namespace ringside
