// PipelineTimes: the time of a rank's actions in a pipeline.
#pragma once

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "core/observe/pipeline_record.h"
#include "core/observe/timeline.h"
#include "core/pipeline/schedule.h"

namespace ringside {

/// Adds up, over the measured steps, when actions begin and end on the device, and how long the
/// rank waits for other stages. What an action waits for workers of its own stage
/// (Activity::exposed within it, such as a scheme that gathers parameters) does not count as its
/// time: it is exposed communication of the scheme. For the thread that trains.
class PipelineTimes {
 public:
  /// Both outlive this object.
  PipelineTimes(Device& device, Timeline& timeline) : device_(device), timeline_(timeline) {}

  /// `bytes_sent`: over the borders of stages, since the run began.
  void begin_step(std::int64_t bytes_sent) {
    actions_.clear(), waits_.clear();
    begin_ = timeline_.now();
    sent_before_ = bytes_sent;
  }
  /// `is_rest`: the action has been added already, and this is what it left for later.
  void add(const pipeline::Action& action, bool is_rest, Mark begin, Mark end) {
    actions_.push_back({action, is_rest, std::move(begin), std::move(end)});
  }
  /// Waits for other stages, outside of actions.
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
    bool is_rest;
    Mark begin, end;
  };
  struct Sum {
    double seconds = 0;
    std::int64_t count = 0;
    double mean_ms() const { return count == 0 ? 0 : 1e3 * seconds / static_cast<double>(count); }
  };

  Device& device_;
  Timeline& timeline_;
  Mark begin_{};                              // of the present step
  std::vector<Timed> actions_;                // likewise
  std::vector<std::pair<Mark, Mark>> waits_;  // likewise
  std::map<std::pair<int, pipeline::Operation>, Sum> sums_;
  std::map<int, std::int64_t> most_under_way_;  // by stage
  Sum waiting_;                                 // by step
  std::int64_t sent_before_ = 0, sent_ = 0;  // bytes: until the present step, in those that count
};

}  // namespace ringside
