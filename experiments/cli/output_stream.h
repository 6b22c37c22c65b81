// What a command prints, for a reader who may stop reading.
#pragma once

#include <functional>
#include <memory>
#include <ostream>
#include <string>

namespace ringside {

/// A stream into an open file. Its text waits in memory until the reader takes it (a pager that is
/// not scrolled, a terminal after Ctrl-S): a thread writes it, and whoever prints never blocks.
class OutputStream : public std::ostream {
 public:
  /// `interrupted` is polled ten times a second.
  OutputStream(int file, std::function<bool()> interrupted);
  /// Finishes.
  ~OutputStream() override;

  /// Blocks until the reader has all text, the file fails, or somebody interrupts. The stream takes
  /// no more text. Returns 0, or the system's number of what went wrong: ECANCELED for an
  /// interruption.
  int finish();

 private:
  class Buffer;
  std::unique_ptr<Buffer> buffer_;
};

/// One line that says that standard output could not be written, and why.
std::string not_shown(int cause);

}  // namespace ringside
