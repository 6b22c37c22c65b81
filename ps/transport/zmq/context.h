// ZmqContext: the sockets of one rank, and the names by which they find each other.
#pragma once

#include <fmt/format.h>

#include <memory>
#include <string>
#include <string_view>
#include <zmq.hpp>

#include "ps/transport/zmq/authenticator.h"

namespace ringside::ps {

/// The ZeroMQ context of one rank: a worker and a server that share a context reach each other
/// inside the process. The rank's channels hold the context. The context's destructor blocks until
/// the messages of the channels have left, at most 1 s.
class ZmqContext {
 public:
  ZmqContext() = default;
  ~ZmqContext() { context_.shutdown(); }
  ZmqContext(const ZmqContext&) = delete;
  ZmqContext& operator=(const ZmqContext&) = delete;

  zmq::context_t& context() { return context_; }
  /// Sets the number of the context's I/O threads, by default 1. To be called before the first
  /// socket is made.
  void use_threads(int count) { context_.set(zmq::ctxopt::io_threads, count); }
  /// From now on servers admit the workers of `admission` alone. All servers that share a context
  /// are of one run, so only the first call counts.
  void admit(Admission admission) {
    if (!authenticator_)
      authenticator_ = std::make_unique<Authenticator>(context_, std::move(admission));
  }

 private:
  zmq::context_t context_;
  std::unique_ptr<Authenticator> authenticator_;
};

inline constexpr std::string_view inside_scheme = "inproc:";

/// The endpoint of a server, for workers that share the server's context.
inline std::string local_endpoint(int server) {
  return fmt::format("{}//server-{}", inside_scheme, server);
}

}  // namespace ringside::ps
