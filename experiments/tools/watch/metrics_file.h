// Metrics of a running comparison, in a file for Prometheus to scrape.
#pragma once

#include <string>

#include "core/base/whole_file.h"
#include "experiments/tools/watch/standing.h"

namespace ringside::tools::watch {

/// The comparison in Prometheus' text format 0.0.4. Figures of a case are those of the newest step
/// of its present run; between runs they are medians of the runs that have ended and count.
std::string metrics_text(const Standing& standing, double time);

/// Keeps a file with this text, which others read whole at any moment. The file is written anew
/// when a run or the comparison begins or ends, and for other events at most once a second; does
/// not wait for the disk. `folder` outlives this object.
class MetricsFile : public runner::ProgressListener {
 public:
  MetricsFile(const OpenFolder& folder, std::string name)
      : folder_(folder), name_(std::move(name)) {}
  void hear(const runner::ProgressEvent& event) override;

 private:
  const OpenFolder& folder_;
  std::string name_;
  Standing standing_;
  double written_ = 0;  // when
};

}  // namespace ringside::tools::watch
