// A streaming hash of bytes.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

namespace ringside {

/// XXH3, 128 bits, in the order of the calls.
class Hash {
 public:
  Hash();
  ~Hash();
  void update(std::span<const std::byte> bytes);
  /// 32 hexadecimal digits.
  std::string digest() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace ringside
