// What both ends of a channel over ZeroMQ have in common; nothing else includes it.
#pragma once

#include <span>
#include <zmq.hpp>

#include "ps/archive.h"
#include "ps/zmq_channel.h"

namespace ringside::ps {

struct Hub::Context {
  zmq::context_t zmq;
};

inline constexpr std::string_view inside_scheme = "inproc:";

/// What a worker's socket is known by: who does not know the token cannot take a worker's place.
std::string routing_id(std::uint64_t token, int worker);

struct Socket {
  zmq::socket_t zmq;
  bool inside = false;
};

class ZmqChannel : public Channel {
 public:
  ZmqChannel(Device& device, std::shared_ptr<Hub> hub, const TransportOptions& options)
      : device_(device), hub_(std::move(hub)), options_(options) {}

  std::optional<Received> receive(double timeout_s) override;
  Traffic traffic() const override { return traffic_; }

 protected:
  Socket& add_socket(zmq::socket_type type, bool inside);

  /// Blocks until something comes on any socket or `sending` takes something.
  void poll(double timeout_s, const Socket* sending);

  /// False if the peer takes nothing within the deadline. `id` is empty on a worker's socket.
  bool send_on(Socket& socket, const std::string& id, Message message,
               zmq::send_flags flags = zmq::send_flags::none);
  bool send_if_taken(Socket& socket, const std::string& id, Message message);

  /// The parts of the next message of a socket; empty if there is none.
  static std::vector<zmq::message_t> receive_parts(Socket& socket);
  /// Throws Error for parts that are no message.
  Message open(const Socket& socket, std::span<zmq::message_t> parts);

  std::vector<Socket>& sockets() { return sockets_; }
  const TransportOptions& options() const { return options_; }
  Device& device() const { return device_; }

 private:
  virtual std::optional<Received> receive_now() = 0;
  Tensor adopt(zmq::message_t part, const FrameShape& frame);

  Device& device_;
  std::shared_ptr<Hub> hub_;  // outlives the sockets
  TransportOptions options_;
  std::vector<Socket> sockets_;
  Traffic traffic_;
};

}  // namespace ringside::ps
