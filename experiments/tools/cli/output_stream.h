// The output of a command, whose reader may go away.
#pragma once

#include <functional>
#include <memory>
#include <ostream>
#include <string>

#include "experiments/tools/cli/waiting_text.h"

namespace ringside::tools::cli {

/// A stream into an open file. A thread writes the text, which waits in memory until the reader
/// takes it (a pager may not be scrolled, or a terminal may be stopped by Ctrl-S). So printing
/// never blocks. If more than `most_waiting` bytes wait, their middle is left out (WaitingText).
class OutputStream : public std::ostream {
 public:
  static constexpr std::size_t usually_waiting = 16 << 20;  // bytes

  /// `interrupted` returns whether the user wants the program to end. It is called ten times a
  /// second while finish() waits for a reader that takes nothing. `notice` makes the line that
  /// replaces text that is left out.
  OutputStream(int file, std::function<bool()> interrupted,
               std::size_t most_waiting = usually_waiting,
               WaitingText::Notice notice = WaitingText::left_out_text);
  /// Calls finish().
  ~OutputStream() override;

  /// Blocks until the reader has all text, the file fails, or the user interrupts. The stream takes
  /// no text afterwards. Returns 0 for success, or the system's error number: ECANCELED for an
  /// interruption.
  int finish();

 private:
  class Buffer;
  std::unique_ptr<Buffer> buffer_;
};

/// One line: standard output could not be written, and the cause. `cause` is an error number of the
/// system.
std::string not_shown(int cause);

}  // namespace ringside::tools::cli
