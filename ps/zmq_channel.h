// Channel over ZeroMQ: within a rank, between processes of one host, or over TCP.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/observe/timeline.h"
#include "ps/channel.h"

namespace ringside::ps {

/// The sockets of one rank: a worker and a server that share it reach each other without leaving
/// the process. Held by its channels; its end blocks until what they sent is gone, at most a
/// second. One I/O thread.
class Hub {
 public:
  Hub();
  ~Hub();
  struct Context;
  Context& context() { return *context_; }

 private:
  std::unique_ptr<Context> context_;
};

struct ZmqOptions {
  std::string transport = "ipc";  // or tcp
  /// tcp: of the first server, the others follow; 0: any that is free.
  std::int64_t port = 0;
  /// What an error about the port calls it.
  std::string port_option = "port";
  /// Connections that send a larger frame are cut.
  std::int64_t max_frame_bytes = 1 << 20;
  double timeout_s = 60;
};

/// A server's end. `token` is what workers must know.
struct ServerEnd {
  std::unique_ptr<Channel> channel;
  std::string endpoint;  // for workers of other ranks
};

/// Listens on a name that leaves no file (ipc) or on 127.0.0.1 (tcp), and within the hub. Throws
/// Error that names the port and its option if it is taken.
ServerEnd open_server(Device& device, std::shared_ptr<Hub> hub, std::uint64_t token, int server,
                      const ZmqOptions& options);

/// A worker's end: one connection for each server's endpoint; `local_endpoint` for the server
/// that shares the hub. A send that blocks is recorded as exposed.
std::unique_ptr<Channel> connect_worker(Device& device, std::shared_ptr<Hub> hub,
                                        std::uint64_t token, int worker,
                                        const std::vector<std::string>& endpoints,
                                        const ZmqOptions& options, Timeline& timeline);

/// The endpoint of a server, for workers of the same hub.
std::string local_endpoint(int server);

}  // namespace ringside::ps
