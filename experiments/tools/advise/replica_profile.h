// The times of the stages of one replica of a model in a pipeline.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "core/pipeline/simulation.h"
#include "experiments/runner/run/parallel_simulations.h"
#include "experiments/tools/advise/candidate.h"

namespace ringside::tools::advise {

/// Simulates pipelines of one replica without a limit of memory and without a data dimension, and
/// tells from their records how long a step of a mesh takes at least. Each rank is measured with
/// one stage; those of schedules with several take an equal part of it.
class ReplicaProfile {
 public:
  /// The arguments outlive this object.
  ReplicaProfile(const Question& question, const runner::Simulate& simulate)
      : question_(question), simulate_(simulate) {}

  /// Simulates those of these candidates' replicas that are not known yet, in this order, within
  /// half of Question::seconds; those that take longer stay unknown. Blocks. Throws Error if a
  /// simulation fails; returns false if the user interrupts.
  bool measure(const std::vector<Candidate>& candidates);
  bool knows(const Candidate& candidate) const { return known_.contains(key_of(candidate)); }

  /// Milliseconds of the candidate's schedule, with sends and without what goes along the data
  /// dimension (pipeline::simulate()). The replica must be known.
  double step_ms(const Candidate& candidate) const;

 private:
  struct Rank {
    pipeline::StageTimes times{};
    double sent_bytes = 0;  // of one micro-batch, to one neighbour
  };
  struct Key {
    std::int64_t ranks = 1;
    MicroBatch micro_batch;
    auto operator<=>(const Key&) const = default;
  };

  Key key_of(const Candidate& candidate) const;
  RunPlan plan_of_replica(const Candidate& candidate) const;
  std::vector<Rank> ranks_of(const RunRecord& row) const;
  double send_s(const Candidate& candidate, const Rank& rank) const;

  const Question& question_;
  const runner::Simulate& simulate_;
  std::map<Key, std::vector<Rank>> known_;
};

}  // namespace ringside::tools::advise
