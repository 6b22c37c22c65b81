// A bounded buffer of text that waits for its reader.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <utility>

namespace ringside::tools::cli {

/// A queue of text. If its reader takes the text too slowly, the queue keeps the oldest and the
/// newest text. In place of the text between them the reader gets one line with the number of bytes
/// left out. For one thread.
class WaitingText {
 public:
  /// Makes this line, with its line feed, of the number of bytes.
  using Notice = std::function<std::string(std::size_t bytes)>;

  /// Holds at most about `most` bytes: half of them are for the oldest text, half for the newest.
  explicit WaitingText(std::size_t most, Notice notice = left_out_text)
      : half_(most / 2), notice_(std::move(notice)) {}

  void append(std::string_view text);
  bool empty() const { return taken_ == oldest_.size() && newest_.empty(); }
  /// Returns the oldest bytes, `most` or fewer; valid until the next call of another function.
  std::string_view front(std::size_t most);
  /// Removes this many of the bytes that front() returned.
  void pop(std::size_t bytes) { taken_ += bytes; }

  /// The line for people.
  static std::string left_out_text(std::size_t bytes);

 private:
  const std::size_t half_;
  const Notice notice_;
  std::string oldest_;  // the first `taken_` bytes have been removed
  std::size_t taken_ = 0;
  std::string newest_;  // in use once the oldest text has filled its half
  std::size_t left_out_ = 0;
};

}  // namespace ringside::tools::cli
