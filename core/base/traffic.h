// Bytes that left and reached a rank.
#pragma once

#include <cstdint>

namespace ringside {

/// Payload and headers that crossed from one rank to another; what stays inside a rank is free.
struct Traffic {
  std::int64_t sent = 0;
  std::int64_t received = 0;

  Traffic operator-(const Traffic& earlier) const {
    return {sent - earlier.sent, received - earlier.received};
  }
  Traffic operator+(const Traffic& other) const {
    return {sent + other.sent, received + other.received};
  }
};

}  // namespace ringside
