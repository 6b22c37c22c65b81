// The standard output and error of a rank.
#pragma once

#include <string>

namespace ringside {

/// A pipe: the launcher keeps the reading end, and the rank's process writes to the other end.
class RankOutput {
 public:
  /// Throws Error if the process may not open more files.
  RankOutput();
  ~RankOutput();
  RankOutput(const RankOutput&) = delete;
  RankOutput& operator=(const RankOutput&) = delete;

  /// Called in the rank's process after fork(): async-signal-safe.
  void become_standard_streams() const;
  /// Called in the launcher after fork().
  void keep_reading_end();

  /// The number to pass to poll(); -1 after the end of the output.
  int file() const { return file_; }
  /// Returns the output that has arrived; does not block.
  std::string read();
  /// The last line so far that is not empty, cut to a length that fits into an error message.
  const std::string& last_line() const { return last_line_; }

 private:
  void remember(const std::string& text);

  int file_ = -1, writing_end_ = -1;
  std::string line_, last_line_;
};

}  // namespace ringside
