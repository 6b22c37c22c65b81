#include "ps/transport/zmq/handshake.h"

#include <utility>

#include "ps/transport/zmq/keys.h"

namespace ringside::ps {
namespace {

constexpr int handshake_events = ZMQ_EVENT_HANDSHAKE_SUCCEEDED | ZMQ_EVENT_HANDSHAKE_FAILED_AUTH |
                                 ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL |
                                 ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL;
/// A server that has no keys, or another key than the worker believes, cannot read what the worker
/// says, and may end the connection without a word. A connection may break for other reasons, so a
/// few are forgiven; ZeroMQ connects again after a tenth of a second.
constexpr int forgiven = 5;

}  // namespace

Handshake::Handshake(zmq::context_t& context, zmq::socket_t& socket, int worker, int server,
                     std::string endpoint, const TransportOptions& options)
    : events_(context, socket, handshake_events),
      worker_(worker),
      server_(server),
      endpoint_(std::move(endpoint)),
      options_(options) {}

bool Handshake::look() {
  while (const auto event = events_.next()) {
    if (event->kind == ZMQ_EVENT_HANDSHAKE_SUCCEEDED) {
      events_.end();
      return true;
    }
    fail(*event);
  }
  return false;
}

void Handshake::fail(const SocketEvent& event) {
  const bool keys = keyed(options_);
  const std::string own = fmt::format("{}/{}.public", options_.keys, worker_key(worker_));
  if (event.kind == ZMQ_EVENT_HANDSHAKE_FAILED_AUTH && keys)
    throw refused(fmt::format("does not know the key {}", own),
                  "give servers and workers the files of the same call of `ringside keys`");
  if (event.kind == ZMQ_EVENT_HANDSHAKE_FAILED_AUTH)
    throw refused("does not know the secret of this run",
                  fmt::format("another run's server may listen there; set {} to another port",
                              options_.port_option));
  if (event.kind == ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL)
    throw refused(
        fmt::format("speaks another protocol (ZeroMQ's error {:#x})", event.value),
        fmt::format("the worker has {}: let servers and workers all have keys, or none, and look "
                    "at who listens on this port",
                    keys ? "keys" : "no keys"));
  if (keys && ++ends_ > forgiven)
    throw refused(
        fmt::format("has ended {} handshakes, as a server does that has no keys, or not the key "
                    "{}/{}.public",
                    ends_, options_.keys, server_key),
        "give servers and workers the files of the same call of `ringside keys`");
}

Error Handshake::refused(const std::string& cause, const std::string& advice) const {
  return Error("server {} at {} refused worker {}: the server {}; {}", server_, endpoint_, worker_,
               cause, advice);
}

}  // namespace ringside::ps
