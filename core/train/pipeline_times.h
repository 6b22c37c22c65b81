// PipelineTimes: the time of a rank's actions in a pipeline.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "core/device/device.h"
#include "core/observe/pipeline_record.h"
#include "core/pipeline/schedule.h"

namespace ringside {

/// Adds up when actions begin and end on the device, over the measured steps. For the thread that
/// trains.
class PipelineTimes {
 public:
  /// The device outlives this object.
  explicit PipelineTimes(Device& device) : device_(device) {}

  /// `bytes_sent`: over the borders of stages, since the run began.
  void begin_step(std::int64_t bytes_sent) {
    actions_.clear(), waits_.clear();
    sent_before_ = bytes_sent;
  }
  void add(const pipeline::Action& action, Mark begin, Mark end) {
    actions_.push_back({action, std::move(begin), std::move(end)});
  }
  void add_wait(Mark begin, Mark end) { waits_.emplace_back(std::move(begin), std::move(end)); }
  /// So many micro-batches are between their forward and the end of backward in a stage.
  void note_under_way(int stage, std::int64_t count);
  /// The step counts. Blocks until the device has done it. `bytes_sent` as in begin_step().
  void count_step(std::int64_t bytes_sent);

  /// The means of the steps that count.
  PipelineRecord record() const;

 private:
  struct Timed {
    pipeline::Action action;
    Mark begin, end;
  };
  struct Sum {
    double seconds = 0;
    std::int64_t count = 0;
    double mean_ms() const { return count == 0 ? 0 : 1e3 * seconds / static_cast<double>(count); }
  };

  Device& device_;
  std::vector<Timed> actions_;                // of the present step
  std::vector<std::pair<Mark, Mark>> waits_;  // likewise
  std::map<std::pair<int, pipeline::Operation>, Sum> sums_;
  std::map<int, std::int64_t> most_under_way_;  // by stage
  Sum waiting_;                                 // by step
  std::int64_t sent_before_ = 0, sent_ = 0;  // bytes: until the present step, in those that count
};

}  // namespace ringside
