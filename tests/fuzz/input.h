// Choices made from a fuzzer's bytes.
#pragma once

#include <fmt/format.h>

#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <span>

namespace ringside::fuzz {

/// Ends the program if a condition does not hold, as fuzzers expect.
inline void require(bool holds, const char* what) {
  if (holds) return;
  fmt::print(stderr, "this does not hold: {}\n", what);
  std::abort();
}

/// Reads values; when the bytes are used up, zeros.
class Input {
 public:
  explicit Input(std::span<const std::byte> bytes) : bytes_(bytes) {}
  bool empty() const { return bytes_.empty(); }

  template <class T>
  T raw() {
    T value{};
    const std::size_t size = std::min(sizeof value, bytes_.size());
    std::memcpy(&value, bytes_.data(), size);
    bytes_ = bytes_.subspan(size);
    return value;
  }
  /// A number below `count`.
  std::size_t below(std::size_t count) { return raw<std::uint8_t>() % count; }
  /// Mostly `usual`.
  std::int64_t number(std::int64_t usual) {
    switch (below(8)) {
      case 0:
        return raw<std::int64_t>();
      case 1:
        return raw<std::int8_t>();
      case 2:
        return usual + 1;
      case 3:
        return usual - 1;
      default:
        return usual;
    }
  }
  double real(double usual) {
    constexpr std::array<double, 5> odd = {0, -1, 1e300, std::numeric_limits<double>::infinity(),
                                           std::numeric_limits<double>::quiet_NaN()};
    const std::size_t choice = below(16);
    return choice < odd.size() ? odd[choice] : choice == odd.size() ? raw<double>() : usual;
  }

 private:
  std::span<const std::byte> bytes_;
};

}  // namespace ringside::fuzz
