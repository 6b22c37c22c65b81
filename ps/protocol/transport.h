// Transport: how the workers and servers of a run reach each other.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "core/scheme/rank_context.h"
#include "ps/protocol/channel.h"

namespace ringside::ps {

/// Messages under way to one peer before send() blocks; more than a client ever has unanswered.
inline constexpr int high_water_mark = 64;

/// What a scheme asks of any transport.
struct TransportOptions {
  std::string transport = "ipc";  // between processes: ipc or tcp
  /// tcp: of the first server, the others follow; 0: any that is free.
  std::int64_t port = 0;
  /// What an error about the port calls it.
  std::string port_option = "port";
  /// Larger frames are refused.
  std::int64_t max_frame_bytes = 1 << 20;
  /// The deadline of all that blocks.
  double timeout_s = 60;
};

/// One rank's end. `token` is what all messages of the run carry.
struct Connection {
  std::unique_ptr<Channel> channel;
  std::uint64_t token = 0;
};

/// Opens the ends of a run's channels: over ZeroMQ between threads and processes, or in a simulated
/// world. Context and transport outlive the channels.
class Transport {
 public:
  virtual ~Transport() = default;
  /// For the server of this rank. Blocks until the run's token is there.
  virtual Connection listen(const RankContext& context, const TransportOptions& options) = 0;
  /// For the worker of this rank: to all servers; to the one beside it, if any, within the rank. A
  /// send that blocks is recorded as exposed. Blocks until all servers listen; throws Error that
  /// names the one that does not after the options' deadline.
  virtual Connection connect(const RankContext& context, const TransportOptions& options) = 0;
};

}  // namespace ringside::ps
