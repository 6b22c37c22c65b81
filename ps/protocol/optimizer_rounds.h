// OptimizerRounds: the rounds of sums over the whole model that come before an update.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "core/optim/optimizer.h"
#include "ps/protocol/replies.h"

namespace ringside::ps {

/// A server's part in the sums that its optimizer needs (Optimizer::rounds). In each round every
/// worker asks for this server's part of the sums, and gets it once all chunks of the server have
/// their gradients (Kind::measure). The workers add up the parts of all servers, and send back the
/// totals with their next request, or alone after the last round (Kind::settle). When the first
/// worker sends those, the server updates all of its chunks and begins the next step.
class OptimizerRounds {
 public:
  struct Of {
    int workers = 1;
    std::size_t chunks = 1;     // of this server
    bool all_push_all = false;  // whether every worker pushes every chunk
    bool skips = false;         // whether steps with gradients that are not finite are skipped
  };
  /// The optimizer and the device outlive this object.
  OptimizerRounds(Optimizer& optimizer, Device& device, const Of& of);

  /// Another chunk has all of its gradients of the step.
  void gather() { ++gathered_; }
  /// Takes a request of Kind::measure, which answer() answers. Throws Error, and takes nothing,
  /// if it is about another round than the worker's next one, or if its loss scale or its totals
  /// differ from another worker's.
  void measure(int worker, const Header& header, const std::vector<Tensor>& frames);
  /// The replies whose sums can be measured; `all` are the parameters and gradients of the server.
  Replies answer(const ParameterRange& all);
  /// Takes the totals of the last round; throws Error as measure() does. The first worker's end the
  /// rounds: then returns whether the gradients are finite, and the step is updated or skipped.
  std::optional<bool> settle(int worker, const Header& header, const std::vector<Tensor>& frames);

  /// The step whose gradients are being gathered, with the loss scale of its workers.
  StepInfo step() const { return now_.info(); }
  /// The step is over.
  void end_step();
  /// The run goes on after `steps` steps.
  void restored(std::int64_t steps) { now_.step = steps; }

 private:
  /// The rounds of one step.
  struct Step {
    std::int64_t step = 0;
    float loss_scale = 1;
    std::vector<std::vector<double>> sums{};    // this server's sums, by round
    std::vector<std::vector<double>> totals{};  // over all servers, by round
    std::vector<std::size_t> asked{};           // rounds that each worker has asked for
    std::vector<bool> settled{};                // whether each worker has sent the last totals

    StepInfo info() const { return {.step = step, .loss_scale = loss_scale}; }
  };
  /// The header's step. Throws Error if that is neither the current step nor the one before, or if
  /// the loss scale differs from another worker's.
  Step& step_of(const Header& header);
  std::vector<double> totals_in(const Header& header, std::int64_t round,
                                const std::vector<Tensor>& frames) const;
  /// Gives the totals of a round to the optimizer. If another worker has sent totals of this round
  /// before, only compares the two, and throws Error if they differ.
  void take_totals(Step& step, std::size_t round, std::vector<double> totals);
  bool may_measure() const;

  Optimizer& optimizer_;
  Device& device_;
  Of of_;
  Step now_, last_;             // the current step, and the one before
  std::size_t gathered_ = 0;    // chunks whose gradients are complete
  std::vector<Reply> waiting_;  // replies whose sums are still missing
};

}  // namespace ringside::ps
