// Facts about a scheme that the planner uses: its servers, who exchanges values, what is sharded.
#pragma once

#include <cstdint>
#include <string>

namespace ringside {

/// The facts about a scheme's servers that the planner may use, without its options.
struct Servers {
  int count = 0;
  /// Servers 0 to colocated - 1 run in processes of workers (workers_with_servers()).
  int colocated = 0;
  int group = 1;         // so many consecutive workers push as one
  std::string device{};  // device kind of dedicated servers; empty: the run's device kind
};

/// The ranks that exchange values in a step of a scheme.
enum class SchemeTopology : std::uint8_t {
  none,     // none: workers train by themselves
  peers,    // workers with each other, by collectives
  servers,  // workers with parameter servers; synchronous ones reply to all workers together
  master    // workers with one master, which replies to each worker separately
};

/// The parts of a model's state that ranks shard: the stages of ZeRO (Rajbhandari et al., SC'20,
/// section 5). A stage shards what the stages before it do, and the part that it is named after.
enum class ZeroStage : std::uint8_t { none, optimizer, gradients, parameters };

/// The parts of a model's state that a scheme shards, each evenly among `ranks` ranks.
struct StateDivision {
  ZeroStage stage = ZeroStage::none;
  int ranks = 1;

  /// The number of ranks among which a part is divided; 1: every rank has all of it.
  int optimizer() const { return stage >= ZeroStage::optimizer ? ranks : 1; }
  int gradients() const { return stage >= ZeroStage::gradients ? ranks : 1; }
  int parameters() const { return stage >= ZeroStage::parameters ? ranks : 1; }
};

}  // namespace ringside
