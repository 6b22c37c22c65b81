// The sockets of one rank, and the names by which they find each other.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <zmq.hpp>

namespace ringside::ps {

/// The ZeroMQ context of one rank: a worker and a server that share a hub reach each other inside
/// the process. The rank's channels hold the hub. The hub's destructor blocks until the messages of
/// the channels have left, at most a second. The hub has one I/O thread.
class Hub {
 public:
  zmq::context_t& context() { return context_; }

 private:
  zmq::context_t context_;
};

inline constexpr std::string_view inside_scheme = "inproc:";

/// The endpoint of a server, for workers that share the server's hub.
inline std::string local_endpoint(int server) {
  return fmt::format("{}//server-{}", inside_scheme, server);
}

/// The name of a worker's socket. It contains the token, so nobody without the token can take a
/// worker's place.
inline std::string routing_id(std::uint64_t token, int worker) {
  return fmt::format("{:016x}.{}", token, worker);
}

}  // namespace ringside::ps
