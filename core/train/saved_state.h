// SavedState: the state that a run takes over from a checkpoint, whichever scheme wrote it.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "core/checkpoint/checkpoint.h"
#include "core/plan/run_plan.h"
#include "core/scheme/state.h"

namespace ringside {

/// The name of the running statistics of batch norms, which are no state of a scheme; their replica
/// is the number of the micro-batch of the step, over all ranks.
inline constexpr const char* statistics_state = "batch_norm_statistics";

/// Fills the ranges that a scheme shows with what a checkpoint has of them. A run of the same
/// scheme, options, world and mesh takes over all of it. Another run takes over what the two share:
///
/// - Replicas of their own begin with the one model of the checkpoint, if it has one, and with the
///   moments of its optimizer. If it has as many replicas, each is taken over by its worker.
/// - One model, or another number of replicas, begins with the checkpoint's replicas if these are
///   equal, as after an averaging. If not, the run is refused: their mean is no state that the run
///   ever had.
/// - Other state that the checkpoint lacks begins anew, such as error memories where nothing was
///   compressed: as copies of what StateRange::begins_as names, or as it is after attach(). So does
///   state that has a meaning under the same options alone (StateRange::of_options).
class SavedState {
 public:
  /// `replicas` is the number of workers with state of their own. The checkpoint outlives this
  /// object.
  SavedState(const Checkpoint& from, const RunPlan& plan, int replicas);

  /// Blocks. Throws Error for what is damaged, for a replica that cannot be taken over, and, in a
  /// run of the same scheme, options and world, for what is missing.
  void write(const StateRange& range);
  /// Whether the run has the scheme, the options and the world of the checkpoint's.
  bool is_of_same_algorithm() const { return same_algorithm_; }
  /// The state of this name is taken over by other means.
  void takes(const std::string& name) { taken_.insert(name); }
  /// What was not taken over, once all ranges are written: "of its state, error_memory is not used;
  /// outer_momentum begins anew". Empty if there is no such thing.
  std::string note() const;

 private:
  std::optional<StateKey> source(const std::string& name, std::int64_t replica);
  bool are_equal(const std::string& name, const std::vector<std::int64_t>& replicas);
  void copy(const StateKey& key, const StateRange& to);

  const Checkpoint& from_;
  int replicas_;
  bool same_algorithm_;  // scheme, options and world are those of the checkpoint
  std::string wanted_;   // "scheme ddp at world 4"
  std::map<StateKey, std::int64_t> state_;
  std::map<std::string, bool> equal_;   // by name, once replicas have been compared
  std::set<std::string> taken_, anew_;  // names
};

}  // namespace ringside
