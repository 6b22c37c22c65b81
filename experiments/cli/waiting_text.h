// Text that waits for a reader, in a bounded amount of memory.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace ringside {

/// A queue of text. If its reader takes the text too slowly, the queue keeps the oldest and the
/// newest text. In place of the text between them the reader gets one line, which says how many
/// bytes were left out. For one thread.
class WaitingText {
 public:
  /// Holds at most about `most` bytes: half of them are for the oldest text, half for the newest.
  explicit WaitingText(std::size_t most) : half_(most / 2) {}

  void append(std::string_view text);
  bool empty() const { return taken_ == oldest_.size() && newest_.empty(); }
  /// Returns the oldest bytes, `most` or fewer; valid until the next call of another function.
  std::string_view front(std::size_t most);
  /// Removes this many of the bytes that front() returned.
  void pop(std::size_t bytes) { taken_ += bytes; }

 private:
  const std::size_t half_;
  std::string oldest_;  // the first `taken_` bytes have been removed
  std::size_t taken_ = 0;
  std::string newest_;  // in use once the oldest text has filled its half
  std::size_t left_out_ = 0;
};

}  // namespace ringside
