// The waits of workers, classified by the names of slices in a trace.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/plan/mesh.h"
#include "experiments/tools/explain/traced_steps.h"

namespace ringside::tools::explain {

/// The causes for which a worker's main thread waits.
enum class WaitFor : std::uint8_t {
  reduction,  // the sum of gradients over ranks
  gather,     // parameters that lie in shards on all ranks
  server,     // replies of servers, and messages to them
  host,       // state that is offloaded to the host
  stage,      // values of other stages of a pipeline, and sends to them
  ranks,      // all ranks, without any data
  other
};

/// The rank that came last to a collective, and the time.
struct LastToCome {
  double at_ms = 0;
  int rank = -1;
};

/// One wait of a worker. The first part of it lasts until the last rank has come to the collective,
/// the rest is the collective's own time.
struct Wait {
  int rank = 0;      // of the worker that waits
  std::string what;  // "all-reduce bucket 0", "push_pull block.3"
  WaitFor kind = WaitFor::other;
  double begin_ms = 0, end_ms = 0;
  /// The time at which the worker began the operation that it waits for; none if that was before
  /// the traced steps.
  std::optional<double> begun_ms{};
  /// The rank that came last to the same collective; none as Collectives::last() says.
  std::optional<LastToCome> last{};

  double ms() const { return end_ms - begin_ms; }
  /// The time of this wait in which the last rank had not come yet.
  double for_last_rank_ms() const;
  double transfer_ms() const { return ms() - for_last_rank_ms(); }
};

/// The times at which ranks reached the collectives of a run. The k-th collective of a name is the
/// same one on all ranks.
class Collectives {
 public:
  explicit Collectives(const TracedRun& run, const RunPlan& plan);
  /// The last rank of the collective of that name to which `rank` came at `at_ms`. None if a rank
  /// of the run is not traced, if the collective began before the traced steps on one of them, and
  /// for operations of one worker alone.
  std::optional<LastToCome> last(const std::string& name, int rank, double at_ms) const;
  /// The later one of the two ranks of a message between stages to which `rank` came at `at_ms`:
  /// the one that sends it, or the one that receives it. None for all else, and as above.
  std::optional<LastToCome> last_of_message(const std::string& name, int rank, double at_ms) const;

 private:
  /// Workers of different stages of a pipeline give their collectives the same names, and different
  /// pipelines their messages.
  using Key = std::pair<std::string, int>;
  using Comings = std::map<int, std::vector<double>>;  // by rank
  MeshPlace place(int rank) const;
  static std::optional<LastToCome> last_of(const Comings& comings, std::size_t ranks, int rank,
                                           double at_ms);

  std::size_t world_;                                  // workers of a stage
  std::vector<MeshPlace> places_;                      // of each rank; empty without a pipeline
  std::map<Key, Comings> collectives_{}, messages_{};  // by name, and by stage or replica
};

/// The waits of all workers of a run of `plan`, rank by rank, in the order of time.
std::vector<Wait> waits_of(const TracedRun& run, const Collectives& collectives);

/// "all-reduce bucket 0" of a slice "wait all-reduce bucket 0", and so on.
std::string awaited_name(const TraceSlice& slice);

/// The communication of the worker that ended a wait: the latest one of that name that the worker
/// had begun; none if it was begun before the traced steps.
const TraceSlice* awaited_by(const TracedWorker& worker, const TraceSlice& wait);

}  // namespace ringside::tools::explain
