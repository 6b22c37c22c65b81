#include "ps/transport/zmq/round_trips.h"

#include <algorithm>
#include <cstring>
#include <zmq.hpp>

#include "core/base/error.h"
#include "ps/protocol/partition.h"

namespace ringside::ps {

struct EchoEnd::Socket {
  zmq::context_t context{};
  zmq::socket_t zmq{context, zmq::socket_type::pair};

  zmq::message_t receive() {
    zmq::message_t message;
    if (!zmq.recv(message)) throw Error("ZeroMQ: the other process sends nothing back");
    return message;
  }
};

EchoEnd::EchoEnd(double timeout_s) : socket_(std::make_unique<Socket>()) {
  const int timeout_ms = static_cast<int>(timeout_s * 1e3);
  socket_->zmq.set(zmq::sockopt::linger, 0);
  socket_->zmq.set(zmq::sockopt::sndtimeo, timeout_ms);
  socket_->zmq.set(zmq::sockopt::rcvtimeo, timeout_ms);
}

EchoEnd::~EchoEnd() = default;

std::string EchoEnd::listen() {
  socket_->zmq.bind("tcp://127.0.0.1:*");
  return socket_->zmq.get(zmq::sockopt::last_endpoint);
}

void EchoEnd::connect(const std::string& endpoint) { socket_->zmq.connect(endpoint); }

void EchoEnd::round_trip(std::span<const std::byte> from, std::span<std::byte> to) {
  const auto receive_into_rest = [&](zmq::message_t message) {
    if (message.size() > to.size()) throw Error("ZeroMQ: more comes back than was sent");
    std::memcpy(to.data(), message.data(), message.size());
    to = to.subspan(message.size());
  };
  while (!from.empty()) {
    const std::size_t bytes = std::min(from.size(), static_cast<std::size_t>(max_chunk_bytes));
    zmq::message_t part(
        const_cast<std::byte*>(from.data()), bytes, [](void*, void*) {}, nullptr);
    if (!socket_->zmq.send(std::move(part), zmq::send_flags::none))
      throw Error("ZeroMQ: the other process takes nothing");
    from = from.subspan(bytes);
    zmq::message_t early;
    while (socket_->zmq.recv(early, zmq::recv_flags::dontwait)) receive_into_rest(std::move(early));
  }
  while (!to.empty()) receive_into_rest(socket_->receive());
}

void EchoEnd::echo(std::size_t bytes) {
  while (bytes > 0) {
    zmq::message_t message = socket_->receive();
    if (message.size() > bytes) throw Error("ZeroMQ: more comes than the other process may send");
    bytes -= message.size();
    if (!socket_->zmq.send(std::move(message), zmq::send_flags::none))
      throw Error("ZeroMQ: the other process takes nothing");
  }
}

}  // namespace ringside::ps
