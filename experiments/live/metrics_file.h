// Figures of a running comparison for those who scrape them.
#pragma once

#include <filesystem>
#include <string>

#include "experiments/live/standing.h"

namespace ringside {

/// The comparison in Prometheus' text format 0.0.4. Figures of a case are those of the newest step
/// of its present run; between runs they are medians of the runs that have ended and count.
std::string metrics_text(const Standing& standing, double time);

/// Keeps a file with this text, which others read whole at any moment. The file is written anew
/// when a run or the comparison begins or ends, and for other events at most once a second; does
/// not wait for the disk. Meanwhile the text is in a file with the ending ".part" beside it.
class MetricsFile : public ProgressListener {
 public:
  explicit MetricsFile(std::filesystem::path file) : path_(std::move(file)) {}
  void hear(const ProgressEvent& event) override;

 private:
  std::filesystem::path path_;
  Standing standing_;
  double written_ = 0;  // when
};

}  // namespace ringside
