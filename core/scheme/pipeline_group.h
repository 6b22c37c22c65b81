// PipelineGroup: the workers that together have one replica of the model, stage by stage.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "core/comm/communicator.h"
#include "core/pipeline/schedule.h"
#include "core/pipeline/table_places.h"
#include "core/plan/mesh.h"
#include "core/scheme/post_validation.h"
#include "core/scheme/rank_context.h"

namespace ringside {

/// A value that a stage hands to the next one: the output of its last unit, or the value of an edge
/// (Model::edges) that the border cuts. `gradient` is what comes back.
struct BorderValue {
  static constexpr std::size_t output = SIZE_MAX;
  std::size_t edge = output;
  Shape shape{}, gradient_shape{};
  DType dtype = DType::f32, gradient_dtype = DType::f32;
  bool has_gradient = false;
};
/// A table of stage `owner` that a unit of stage `reader` reads as well (Edge::Kind::table). The
/// owner sends its values once a step, and the reader its gradient in every micro-batch.
struct BorderTable {
  std::size_t edge = 0;
  std::size_t unit = 0,
              parameter = 0;  // in the whole model: the owner, and the table's place there
  pipeline::SharedTable stages{};
  Shape shape{};
};
/// What stages hand to each other.
struct Borders {
  /// What crosses the border behind each stage but the last, for one micro-batch.
  std::vector<std::vector<BorderValue>> behind{};
  std::vector<BorderTable> tables{};

  const std::vector<BorderValue>& operator[](std::size_t stage) const { return behind[stage]; }
  std::size_t size() const { return behind.size(); }
};

/// One worker's view of its pipeline: the group along the pipeline dimension of the mesh. Its ranks
/// are the workers' places in that dimension. For the thread that trains.
class PipelineGroup {
 public:
  /// `whole` is the context of this rank in the run of all stages, and outlives the group. `counts`
  /// are the numbers of parameters of all units of the model. Collective among the group's workers:
  /// blocks until all have called.
  PipelineGroup(const RankContext& whole, std::shared_ptr<const pipeline::Schedule> schedule,
                std::shared_ptr<const Borders> borders, std::vector<std::int64_t> counts);

  const RankContext& whole() const { return whole_; }
  int rank() const { return forward_->rank(); }
  int size() const { return forward_->size(); }

  /// Values go forward by one communicator and gradients come back by another, so that neither
  /// waits for the other; tables that units of two stages read, and parameters, go by a third.
  Communicator& forward() { return *forward_; }
  Communicator& backward() { return *backward_; }
  Communicator& tables() { return *tables_; }

  /// The actions of a step, with sends and receives.
  const pipeline::Schedule& schedule() const { return *schedule_; }
  const Borders& borders() const { return *borders_; }
  const std::vector<std::int64_t>& unit_counts() const { return counts_; }
  /// The stage of a unit of the whole model, and the rank that has it.
  int stage_of_unit(std::size_t unit) const;
  int rank_of_unit(std::size_t unit) const {
    return schedule_->ranks_of[static_cast<std::size_t>(stage_of_unit(unit))];
  }

  /// Moves one element from a rank to another, if this rank is either, on devices that run behind
  /// their host. There the first message of a direction makes its connection, at which both hosts
  /// wait: where all ranks make connections in one order beforehand, no schedule can make them wait
  /// for each other in a circle. Blocks.
  void connect(Communicator& communicator, int from, int to);

  /// Replaces every value by its sum over the stages, in the order of ranks. Collective; blocks.
  void sum(std::span<double> values);
  /// Validates optimizers that do not wait for such sums (pipeline.post_validation); null if the
  /// plan has none.
  PostValidation* validation() const { return validation_.get(); }
  Traffic traffic() const;

 private:
  void make_validation();

  const RankContext& whole_;
  std::shared_ptr<const pipeline::Schedule> schedule_;
  std::shared_ptr<const Borders> borders_;
  std::vector<std::int64_t> counts_;
  std::unique_ptr<Communicator> forward_, backward_, tables_;
  std::unique_ptr<PostValidation> validation_;
};

}  // namespace ringside
