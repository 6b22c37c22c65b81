// Bytes that left and reached a rank.
#pragma once

#include <cstdint>

namespace ringside {

/// Payload and headers that crossed from one rank to another; what stays inside a rank is free.
struct Traffic {
  std::int64_t sent = 0;
  std::int64_t received = 0;
  /// Some of it was not counted where it moved but computed from the sizes of the operations, by
  /// the closed form of an algorithm that the library that moved it may not have used.
  bool computed = false;

  Traffic operator-(const Traffic& earlier) const {
    return {sent - earlier.sent, received - earlier.received, computed || earlier.computed};
  }
  Traffic operator+(const Traffic& other) const {
    return {sent + other.sent, received + other.received, computed || other.computed};
  }
};

}  // namespace ringside
