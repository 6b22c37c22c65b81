// Progress events as lines of JSON, for other programs.
#pragma once

#include <filesystem>
#include <iosfwd>
#include <string>

#include "core/base/whole_file.h"
#include "experiments/runner/run/events.h"

namespace ringside::tools::watch {

/// Writes every event to a stream, each in one call and with its line feed.
class EventLines : public runner::ProgressListener {
 public:
  explicit EventLines(std::ostream& out) : out_(out) {}
  void hear(const runner::ProgressEvent& event) override;
  /// Whether the newest event was the end of a comparison.
  bool ended() const { return ended_; }

 private:
  std::ostream& out_;
  bool ended_ = false;
};

/// The line that replaces lines of `bytes` bytes in all that were not read in time.
std::string left_out_event(std::size_t bytes);

/// Adds events to the end of a file, which others may read meanwhile; at most one step a second.
/// Does not wait for the disk, because the file has only the progress of a comparison; its results
/// are in other files.
class EventFile : public runner::ProgressListener {
 public:
  /// Ends a last line of the file that was cut short. Throws Error if the file cannot be written.
  EventFile(const OpenFolder& folder, const std::string& name);
  ~EventFile() override;
  EventFile(const EventFile&) = delete;
  EventFile& operator=(const EventFile&) = delete;
  void hear(const runner::ProgressEvent& event) override;

 private:
  std::filesystem::path path_;
  int file_ = -1;
  double last_step_ = 0;  // when a step was written; 0: none of the present run yet
};

}  // namespace ringside::tools::watch
