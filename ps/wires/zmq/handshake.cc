#include "ps/wires/zmq/handshake.h"

#include <cstring>
#include <utility>

#include "ps/wires/zmq/keys.h"

namespace ringside::ps {
namespace {

constexpr int events = ZMQ_EVENT_HANDSHAKE_SUCCEEDED | ZMQ_EVENT_HANDSHAKE_FAILED_AUTH |
                       ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL | ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL;
/// A server that has no keys, or another key than the worker believes, cannot read what the worker
/// says, and may end the connection without a word. A connection may break for other reasons, so a
/// few are forgiven; ZeroMQ connects again after a tenth of a second.
constexpr int forgiven = 5;

}  // namespace

Handshake::Handshake(zmq::context_t& context, zmq::socket_t& socket, int worker, int server,
                     std::string endpoint, const TransportOptions& options)
    : socket_(socket.handle()),
      events_(context, zmq::socket_type::pair),
      worker_(worker),
      server_(server),
      endpoint_(std::move(endpoint)),
      options_(options) {
  const std::string name = fmt::format("inproc://handshake-{}", fmt::ptr(socket.handle()));
  if (zmq_socket_monitor(socket.handle(), name.c_str(), events) != 0) throw zmq::error_t();
  events_.set(zmq::sockopt::linger, 0);
  events_.connect(name);
}

bool Handshake::look() {
  while (true) {
    zmq::message_t event, address;
    if (!events_.recv(event, zmq::recv_flags::dontwait)) return false;
    if (!events_.recv(address)) return false;
    std::uint16_t kind = 0;
    std::uint32_t value = 0;
    if (event.size() < sizeof kind + sizeof value) continue;
    std::memcpy(&kind, event.data(), sizeof kind);
    std::memcpy(&value, event.data<char>() + sizeof kind, sizeof value);
    if (kind == ZMQ_EVENT_HANDSHAKE_SUCCEEDED) {
      zmq_socket_monitor(socket_, nullptr, 0);
      return true;
    }
    fail(kind, value);
  }
}

void Handshake::fail(int event, std::uint32_t value) {
  const bool keys = !options_.keys.empty();
  const std::string own = fmt::format("{}/{}.public", options_.keys, worker_key(worker_));
  if (event == ZMQ_EVENT_HANDSHAKE_FAILED_AUTH && keys)
    throw refused(fmt::format("does not know the key {}", own),
                  "give servers and workers the files of the same call of `ringside keys`");
  if (event == ZMQ_EVENT_HANDSHAKE_FAILED_AUTH)
    throw refused("does not know the secret of this run",
                  fmt::format("another run's server may listen there; set {} to another port",
                              options_.port_option));
  if (event == ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL)
    throw refused(
        fmt::format("speaks another protocol (ZeroMQ's error {:#x})", value),
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
