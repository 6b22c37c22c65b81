#include "ps/transport/zmq/socket_events.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>

namespace ringside::ps {

SocketEvents::SocketEvents(zmq::context_t& context, zmq::socket_t& socket, int wanted)
    : socket_(socket.handle()), events_(context, zmq::socket_type::pair) {
  // ZeroMQ frees the name of a monitor that has ended a moment later.
  constexpr int most_names = 100;
  std::string name;
  for (int number = 0;; ++number) {
    name = fmt::format("inproc://events-{}-{}", fmt::ptr(socket_), number);
    if (zmq_socket_monitor(socket_, name.c_str(), wanted) == 0) break;
    if (zmq_errno() != EADDRINUSE || number == most_names) throw zmq::error_t();
  }
  events_.set(zmq::sockopt::linger, 0);
  events_.connect(name);
}

std::optional<SocketEvent> SocketEvents::next() {
  std::uint16_t kind = 0;
  SocketEvent event;
  zmq::message_t part, address;
  // An event is two parts: kind and value, and the address, which nobody here asks for.
  if (!events_.recv(part, zmq::recv_flags::dontwait)) return {};
  if (part.more() && !events_.recv(address)) return {};
  if (part.size() < sizeof kind + sizeof event.value) return {};
  std::memcpy(&kind, part.data(), sizeof kind);
  std::memcpy(&event.value, part.data<char>() + sizeof kind, sizeof event.value);
  event.kind = kind;
  return event;
}

}  // namespace ringside::ps
