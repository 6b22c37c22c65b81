// The choice of a collective's algorithm: the one that was asked for, or the fastest by a cost
// model.
#pragma once

#include <cstdint>
#include <map>
#include <tuple>
#include <vector>

#include "core/sim/world.h"
#include "peer/comm/algorithms/schedule.h"

namespace ringside::peer {

/// The costs of messages between ranks: a fixed time for each message and a time for each byte,
/// within a host and between hosts. Every rank has a port of its own; ranks of a host share its
/// NICs.
struct LinkCosts {
  double within_s = 0, between_s = 0;
  double within_s_per_byte = 0, between_s_per_byte = 0;
  std::vector<int> hosts;  // of every rank
  std::vector<int> nics;   // of every rank; NICs are numbered through all hosts
};

/// The costs between GPUs of a simulated cluster, by its nominal rates.
LinkCosts link_costs(const sim::ClusterSpec& cluster, const std::vector<sim::Place>& ranks);

/// Seconds of a collective whose elements have `element` bytes. Every round takes the latency of
/// its slowest message, and the time of the port or NIC that has most bytes to move in one
/// direction.
double seconds_of(const std::vector<Round>& rounds, std::size_t element, const LinkCosts& costs);

/// The algorithm of each collective of a group. For one thread.
class Choice {
 public:
  /// Always takes this algorithm, which is neither native nor automatic.
  explicit Choice(Algorithm algorithm) : fixed_(&find_algorithm(algorithm)) {}
  /// Takes the fastest algorithm of those that ranks on these hosts can use, collective by
  /// collective. Results are cached.
  explicit Choice(LinkCosts costs) : costs_(std::move(costs)) {}

  /// `count` is the number of elements of the whole array.
  const AlgorithmRow& row(const Collective& call, std::int64_t count, std::size_t element);

 private:
  const AlgorithmRow* fixed_ = nullptr;
  LinkCosts costs_;
  std::map<std::tuple<Collective::Kind, std::int64_t, std::size_t>, const AlgorithmRow*> known_;
};

}  // namespace ringside::peer
