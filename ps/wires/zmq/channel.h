// What both ends of a channel over ZeroMQ have in common; nothing but them includes it.
#pragma once

#include <optional>
#include <span>
#include <zmq.hpp>

#include "ps/protocol/archive.h"
#include "ps/protocol/transport.h"
#include "ps/wires/zmq/hub.h"
#include "ps/wires/zmq/staging.h"

namespace ringside::ps {

struct Socket {
  zmq::socket_t zmq;
  bool inside = false;
};

/// Where the host does not share the device's memory, messages that leave the process wait for
/// copies of their frames (ps/wires/zmq/staging.h) and go with a later call of the channel.
class ZmqChannel : public Channel {
 public:
  ZmqChannel(Device& device, std::shared_ptr<Hub> hub, const TransportOptions& options);

  std::optional<Received> receive(double timeout_s) override;
  Traffic traffic() const override { return traffic_; }

 protected:
  Socket& add_socket(zmq::socket_type type, bool inside);

  /// Blocks until something comes on any socket or `sending` takes something. Meanwhile sends what
  /// becomes ready.
  void poll(double timeout_s, const Socket* sending);

  /// False if the peer takes nothing within the deadline. `id` is empty on a worker's socket.
  bool send_on(Socket& socket, const std::string& id, Message message,
               zmq::send_flags flags = zmq::send_flags::none);
  static bool send_parts(Socket& socket, const std::string& id, const Parts& parts,
                         zmq::send_flags flags);
  bool send_if_taken(Socket& socket, const std::string& id, Message message);

  /// Whether a message has to wait for copies: its own, or those of one before it.
  bool has_to_wait(const Socket& socket, int peer, const Message& message) const;
  bool has_room(int peer) const;
  void stage(int peer, Message message);
  /// False, without errors, if there is no room or it cannot be.
  bool try_stage(int peer, Message message);
  /// Sends what is ready; throws as deliver() does.
  void send_ready();
  /// Sends the first message that waits for the peer, blocking until its copies are there; false
  /// and throws as deliver() does.
  bool send_oldest(int peer, zmq::send_flags flags);
  /// Sends what waits, as far as it becomes ready within the time for last words. For the end of
  /// a channel.
  void finish();

  /// The parts of the next message of a socket; empty if there is none.
  static std::vector<zmq::message_t> receive_parts(Socket& socket);
  /// Throws Error for parts that are no message.
  Message open(const Socket& socket, std::span<zmq::message_t> parts);

  std::vector<Socket>& sockets() { return sockets_; }
  const TransportOptions& options() const { return options_; }
  Device& device() const { return device_; }

 private:
  virtual std::optional<Received> receive_now() = 0;
  /// False if the peer takes nothing, now or within the deadline. Throws Error if it is gone.
  virtual bool deliver(int peer, const Parts& parts, zmq::send_flags flags) = 0;
  bool poll_sockets(double timeout_s, const Socket* sending);
  void count_sent(const Parts& parts);
  Tensor adopt(zmq::message_t part, const FrameShape& frame);

  Device& device_;
  std::shared_ptr<Hub> hub_;  // outlives the sockets
  TransportOptions options_;
  std::vector<Socket> sockets_;
  std::optional<StagedMessages> staged_;  // none where frames are the host's memory
  Traffic traffic_;
};

}  // namespace ringside::ps
