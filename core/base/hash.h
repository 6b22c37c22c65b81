// A streaming hash of bytes.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

namespace ringside {

/// XXH3 with 128 bits, over the bytes of all update() calls in order.
class Hash {
 public:
  Hash();
  ~Hash();
  void update(std::span<const std::byte> bytes);
  /// The hash of all bytes so far: 32 hexadecimal digits.
  std::string digest() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace ringside
