// The sockets of one rank, and by what names they find each other.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <zmq.hpp>

namespace ringside::ps {

/// The sockets of one rank: a worker and a server that share it reach each other without leaving
/// the process. Held by its channels; its end blocks until what they sent is gone, at most a
/// second. One I/O thread.
class Hub {
 public:
  zmq::context_t& context() { return context_; }

 private:
  zmq::context_t context_;
};

inline constexpr std::string_view inside_scheme = "inproc:";

/// The endpoint of a server, for workers of the same hub.
inline std::string local_endpoint(int server) {
  return fmt::format("{}//server-{}", inside_scheme, server);
}

/// What a worker's socket is known by: who does not know the token cannot take a worker's place.
inline std::string routing_id(std::uint64_t token, int worker) {
  return fmt::format("{:016x}.{}", token, worker);
}

}  // namespace ringside::ps
