// Bytes that a rank sent and received.
#pragma once

#include <cstdint>

namespace ringside {

/// Bytes of payload and headers that crossed from one rank to another. Data that stays inside a
/// rank is not counted.
struct Traffic {
  std::int64_t sent = 0;
  std::int64_t received = 0;
  /// Whether some of the bytes were not counted but computed from the sizes of the operations. Such
  /// a computation assumes one algorithm, and the library that moved the bytes may have used
  /// another.
  bool computed = false;

  Traffic operator-(const Traffic& earlier) const {
    return {sent - earlier.sent, received - earlier.received, computed || earlier.computed};
  }
  Traffic operator+(const Traffic& other) const {
    return {sent + other.sent, received + other.received, computed || other.computed};
  }
};

}  // namespace ringside
