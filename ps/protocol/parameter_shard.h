// ParameterShard: the parameters of one server, and what updates them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "core/models/model.h"
#include "core/observe/timeline.h"
#include "core/optim/optimizer.h"
#include "core/scheme/state.h"
#include "ps/protocol/delay_compensation.h"
#include "ps/protocol/elastic_centre.h"
#include "ps/protocol/gradient_sums.h"
#include "ps/protocol/server_config.h"
#include "ps/protocol/update_times.h"

namespace ringside::ps {

/// The values of a server's chunks, which are counted from 0, the sums of their gradients, and an
/// optimizer with its state; with easgd a centre in its place. Chunks say which gradients make an
/// update (ChunkState), and the server says when.
class ParameterShard {
 public:
  /// Writes the initial values. Chunks, policy, device and timeline outlive the shard.
  ParameterShard(const Model& model, const std::vector<ChunkState>& chunks,
                 const ServerConfig& config, const Policy& policy, Device& device,
                 Timeline& timeline);

  /// All values; empty if there are no chunks.
  const Tensor& values() const { return values_; }
  Tensor values(std::size_t chunk) const;
  /// All values, and the sums of their gradients.
  ParameterRange with_gradients() const { return {0, values_, sums_ ? sums_->all() : Tensor{}}; }
  /// Whether an update has a sum of gradients. If not, it has one gradient, which is used in place.
  bool adds_up() const { return sums_.has_value(); }
  /// None with easgd, or if there are no chunks.
  Optimizer* optimizer() const { return optimizer_.get(); }

  /// Applies a gradient that was just taken from the chunk: adds it to the sum of its update, or
  /// keeps it for the update, corrected if there is a compensation.
  void apply(std::size_t chunk, const PushedGradient& gradient,
             const DelayCompensation* compensation);
  /// Updates the chunk with what was applied, which is the mean of the gradients that are there.
  /// The time of a `measured` update counts.
  void update(std::size_t chunk, StepInfo info, bool measured);
  /// The same for all chunks, whose gradients have been multiplied by the loss scale of `info`.
  void update_all(const StepInfo& info, bool measured);
  /// The step is skipped: there is no update.
  void skip() { flows_.clear(); }

  /// With easgd: the difference for the reply to the push that is being handled; else empty.
  Tensor difference() const { return centre_ ? centre_->difference() : Tensor{}; }
  void forget_difference() {
    if (centre_) centre_->forget();
  }
  /// Seconds of measured updates. Blocks until they have run.
  double seconds() { return times_.seconds(); }

  /// Values and the optimizer's state.
  void visit_state(const StateVisitor& visit);
  void restored(std::int64_t skipped);

 private:
  void run(const ParameterRange& range, const StepInfo& info, bool measured,
           std::vector<std::int64_t> flows);
  float share_of(const ChunkState& state) const;
  std::vector<OwnStretch> stretches() const;

  const std::vector<ChunkState>& chunks_;
  const Policy& policy_;
  Device& device_;
  Timeline& timeline_;
  Tensor values_;
  std::optional<GradientSums> sums_;
  Tensor alone_;  // the gradient of an update without a sum
  std::optional<ElasticCentre> centre_;
  std::unique_ptr<Optimizer> optimizer_;
  UpdateTimes times_;
  /// By chunk, if there is a trace: the arrows (push_flow()) of the pushes of the update under way.
  std::map<std::size_t, std::vector<std::int64_t>> flows_;
};

}  // namespace ringside::ps
