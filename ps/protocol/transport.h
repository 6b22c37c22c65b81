// Transport: the connections between the workers and servers of a run.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "core/base/named_enum.h"
#include "core/scheme/rank_context.h"
#include "ps/protocol/channel.h"

namespace ringside::ps {

/// The number of messages under way to a peer at which send() blocks. A client always has fewer
/// unanswered requests at a server.
inline constexpr int high_water_mark = 64;

/// The transports between processes: shared memory, or sockets of ZeroMQ. Automatic: tcp between
/// hosts, shared memory where all ranks can map each other's tensors, else ipc.
enum class TransportKind : std::uint8_t { automatic, shm, tcp, ipc };
inline constexpr std::string_view transport_kind_names[] = {"auto", "shm", "tcp", "ipc"};
constexpr EnumNames names_of(TransportKind) { return transport_kind_names; }

/// The settings of a transport.
struct TransportOptions {
  TransportKind transport = TransportKind::automatic;
  /// tcp: the port of the first server; the others take the ports after it. 0: any free port.
  std::int64_t port = 0;
  /// The name of the option that sets `port`, for errors.
  std::string port_option = "port";
  /// tcp: the IPv4 address on which servers listen, and the one that workers connect to (empty:
  /// the same). `address` empty: the loopback interface, which no other machine reaches.
  std::string address{}, advertise{};
  /// tcp: the folder of the keys with which servers and workers authenticate each other and encrypt
  /// messages. Empty: no keys; workers then authenticate by the run's secret.
  std::string keys{};
  /// tcp: the keys that server 0 has drawn for this run alone (draw_keys() in
  /// ps/transport/zmq/keys.h). Runs on several hosts have such keys where no folder is given.
  std::string drawn_keys{};
  /// tcp, ipc: the number of a rank's threads that move bytes between its memory and its
  /// connections. A connection stays with one thread.
  std::int64_t io_threads = 1;
  /// A connection that has not authenticated within this time is closed.
  double handshake_s = 5;
  /// Larger frames are refused.
  std::int64_t max_frame_bytes = 1 << 20;
  /// The deadline of every call that blocks.
  double timeout_s = 60;
};

/// Whether servers and workers authenticate each other by keys.
inline bool keyed(const TransportOptions& options) {
  return !options.keys.empty() || !options.drawn_keys.empty();
}

/// One rank's end of the connections. All messages of the run carry `token`.
struct Connection {
  std::unique_ptr<Channel> channel;
  std::uint64_t token = 0;
};

/// Opens the ends of a run's channels: between threads and processes, or in a simulated world. The
/// context and the transport must outlive the channels.
class Transport {
 public:
  virtual ~Transport() = default;
  /// Opens the end of this rank's server. Blocks until the run's token is known.
  virtual Connection listen(const RankContext& context, const TransportOptions& options) = 0;
  /// Opens the end of this rank's worker, connected to all servers; messages to a server on the
  /// same rank stay in the rank. The time in which a send blocks is recorded as Activity::exposed.
  /// Blocks until all servers listen. If a server does not listen within the options' deadline,
  /// throws Error that names this server.
  virtual Connection connect(const RankContext& context, const TransportOptions& options) = 0;
};

}  // namespace ringside::ps
