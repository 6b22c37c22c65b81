// ReplayedServers: the servers of a run that is replayed on one rank.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "core/models/model.h"
#include "core/optim/optimizer.h"
#include "core/scheme/rank_context.h"
#include "ps/schemes/ps_options.h"

namespace ringside::ps {

/// The servers of a replayed run (RunPlan::history), on one device: parameters, one optimizer, and
/// for every range of the record the gradients that have arrived. It shares only update_rules()
/// with ParameterServer, the rule by which an optimizer's schedules count steps.
class ReplayedServers {
 public:
  /// The context and the model outlive the servers.
  ReplayedServers(const RankContext& context, const PsOptions& options, const Model& model);

  /// Takes the range's part of a gradient that `worker` pushes for the update `number`; it counts
  /// only if it is `accepted`.
  void push(std::size_t range, int worker, std::int64_t number, const Tensor& gradient,
            bool accepted);
  /// Copies the range, as the worker reads it, into `out`.
  void read(std::size_t range, int worker, const Tensor& out);
  /// Notes that the worker has made its last push, and that a new process pushes as this worker
  /// from number `first` on.
  void leave(std::size_t range, int worker);
  void come(std::size_t range, int worker, std::int64_t first);
  /// Notes that the worker's next push has at least this number.
  void skip(std::size_t range, int worker, std::int64_t number);

  /// The newest version that the worker has read of any range.
  std::int64_t newest(int worker) const;
  const Tensor& parameters() const { return parameters_; }

 private:
  /// The state of a worker in one range.
  struct Worker {
    std::int64_t version = 0;  // of the values that it was given
    Tensor values;             // these values; empty without delay compensation
    std::int64_t next = 0;     // all its gradients have smaller numbers
    bool gone = false;
    bool begins = false;  // a process that has come has not pushed yet
  };
  struct Gradient {
    int worker = 0;
    std::int64_t update = 0;
    Tensor values;
    std::int64_t read_version = 0;
  };
  struct Range {
    Tensor parameters;
    std::int64_t begin = 0, version = 0;
    std::vector<Worker> workers{};
    std::deque<Gradient> waiting{};  // in order of arrival
  };
  Worker& worker_of(Range& range, int worker) const {
    return range.workers[static_cast<std::size_t>(worker)];
  }
  void go_on(Range& range);
  bool update(Range& range);
  void apply(Range& range, const std::vector<Gradient>& gradients);
  Tensor copy_of(const Tensor& values) const;

  Device& device_;
  PsOptions options_;
  bool asp_;
  std::size_t wanted_;  // gradients of an update
  Tensor parameters_;
  std::unique_ptr<Optimizer> optimizer_;
  std::vector<Range> ranges_;
};

}  // namespace ringside::ps
