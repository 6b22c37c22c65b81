// `ringside watch`: a comparison's progress, shown by another process from the files of its folder.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "experiments/tools/watch/follow.h"
#include "experiments/tools/watch/standing.h"

namespace ringside {

enum class Watched : std::uint8_t {
  preparing,  // a process has the folder, and has not told yet what it will make
  running,
  ended,  // the comparison has told its end
  died    // no process has the folder, and the comparison has not told its end
};

class Watch {
 public:
  /// Throws Error if `folder` is no folder of results.
  explicit Watch(std::filesystem::path folder);

  /// What has come since the last look.
  struct Look {
    Watched state = Watched::preparing;
    std::vector<FollowedLine> lines{};
    std::vector<std::string> complaints{};  // about lines that are no events
  };
  /// Does not wait. The first look has the lines of the newest comparison in the folder, or, where
  /// a comparison left no events, those that its rows tell. Throws Error if a file cannot be read.
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

}  // namespace ringside
