// Shape: the extents of a row-major array.
#pragma once

#include <array>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>

namespace ringside {

/// Up to five extents, row-major (the last one is contiguous). A default-constructed shape has no
/// extents and no elements.
class Shape {
 public:
  static constexpr std::size_t max_rank = 5;

  Shape() = default;
  Shape(std::initializer_list<std::int64_t> extents) : rank_(extents.size()) {
    assert(extents.size() <= max_rank);
    std::size_t i = 0;
    for (auto extent : extents) extents_[i++] = extent;
  }

  std::size_t rank() const { return rank_; }
  std::int64_t operator[](std::size_t i) const { return extents_[i]; }

  /// Number of elements.
  std::int64_t count() const {
    if (rank_ == 0) return 0;
    std::int64_t n = 1;
    for (std::size_t i = 0; i < rank_; ++i) n *= extents_[i];
    return n;
  }

  /// For messages: "8x128x256".
  std::string text() const {
    std::string out;
    for (std::size_t i = 0; i < rank_; ++i) {
      if (i > 0) out += 'x';
      out += std::to_string(extents_[i]);
    }
    return out;
  }

  bool operator==(const Shape&) const = default;

 private:
  std::array<std::int64_t, max_rank> extents_{};
  std::size_t rank_ = 0;
};

}  // namespace ringside
