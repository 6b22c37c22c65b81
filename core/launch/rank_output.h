// What a rank writes to its standard output and error.
#pragma once

#include <string>

namespace ringside {

/// A pipe, of which the launcher keeps one end and the rank's process the other.
class RankOutput {
 public:
  /// Throws Error if the process may open no more files.
  RankOutput();
  ~RankOutput();
  RankOutput(const RankOutput&) = delete;
  RankOutput& operator=(const RankOutput&) = delete;

  /// In the rank, after fork(): async-signal-safe.
  void become_standard_streams() const;
  /// In the launcher, after fork().
  void keep_reading_end();

  /// To poll; -1 after the end.
  int file() const { return file_; }
  /// What is there to read; does not block.
  std::string read();
  /// The last line so far that is not empty, cut to a length that fits into a message.
  const std::string& last_line() const { return last_line_; }

 private:
  void remember(const std::string& text);

  int file_ = -1, writing_end_ = -1;
  std::string line_, last_line_;
};

}  // namespace ringside
