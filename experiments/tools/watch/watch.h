// `ringside watch`: a comparison's progress, shown by another process from the files of its folder.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "experiments/runner/run/events.h"
#include "experiments/tools/watch/standing.h"

namespace ringside::tools::watch {

/// A line of a file of events.
struct FollowedLine {
  std::string line;                            // with its line feed
  std::optional<runner::ProgressEvent> event;  // none if this program does not know such an event
};

/// Reads a file of events (EventFile) while another process adds to it. For one thread.
class EventFollower {
 public:
  /// The file need not be there yet.
  explicit EventFollower(std::filesystem::path file) : path_(std::move(file)) {}
  ~EventFollower();
  EventFollower(const EventFollower&) = delete;
  EventFollower& operator=(const EventFollower&) = delete;

  /// Returns the lines that have been added since the last call: whole lines alone, as the other
  /// process may be writing the last one. If the file has been replaced, reads the old one to its
  /// end, then the new one. Does not wait for lines. Throws Error if the file cannot be read.
  std::vector<FollowedLine> read();
  /// Returns complaints about lines that read() has found since the last call: one for each line
  /// that is no event.
  std::vector<std::string> take_complaints();

 private:
  void read_to_the_end(std::vector<FollowedLine>& out);
  bool is_replaced() const;
  void close_file();

  std::filesystem::path path_;
  int file_ = -1;
  std::int64_t number_ = 0;  // of the last whole line
  std::string rest_;         // a line that is not whole yet
  std::vector<std::string> complaints_;
};

enum class Watched : std::uint8_t {
  preparing,  // a process holds the folder, and has not written its plan yet
  running,
  ended,  // the comparison has written its end
  died    // no process holds the folder, and the comparison has not written its end
};

class Watch {
 public:
  /// Throws Error if `folder` is no folder of results.
  explicit Watch(std::filesystem::path folder);

  /// The news since the last look.
  struct Look {
    Watched state = Watched::preparing;
    std::vector<FollowedLine> lines{};
    std::vector<std::string> complaints{};  // about lines that are no events
  };
  /// Does not wait. The first look has the lines of the newest comparison in the folder, or, if a
  /// comparison left no events, those made from its records. Throws Error if a file cannot be read.
  Look look();

  const Standing& standing() const { return standing_; }

 private:
  Watched state(bool held) const;

  std::filesystem::path folder_;
  EventFollower follower_;
  Standing standing_;
  bool is_first_ = true;        // the next look
  bool end_was_there_ = false;  // before the first look
};

}  // namespace ringside::tools::watch
