// The traffic of collectives between CPU ranks on several machines
// (peer/comm/hosts/communicator.h).
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "peer/comm/sim/group.h"

namespace ringside::peer {

/// The quantities of one collective that decide its time.
struct HostsMoves {
  /// Bytes that go from one rank to another of another machine.
  struct Sent {
    int from = 0, to = 0;
    double bytes = 0;
  };
  int steps = 0;  // messages of which each waits for the one before
  std::vector<Sent> sent;
  /// By rank: bytes that the rank reads and writes in the memory of its machine.
  std::vector<double> in_memory;
};

/// `machines` has the machine of every rank. Where segments pass several machines in a pipeline,
/// only one segment is under way at the beginning and at the end; this is counted as additional
/// bytes of each message.
HostsMoves moves_between_hosts(const Collective& call, const std::vector<int>& machines);

/// Simulates collectives between ranks on cores of several machines: once all ranks have come, the
/// latencies of the steps pass (LinkSpec::step_us of the NIC). Then all bytes between two
/// ranks move as one flow, while each rank's core reads and writes memory and serves the network
/// (CollectiveSpec::network_us_per_mb).
void serve_hosts(const std::shared_ptr<SimGroup>& group);

}  // namespace ringside::peer
