// The common part of a ZeroMQ channel's two ends. Only their sources include this file.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <zmq.hpp>

#include "ps/protocol/archive.h"
#include "ps/protocol/transport.h"
#include "ps/transport/zmq/channels.h"
#include "ps/transport/zmq/context.h"
#include "ps/transport/zmq/moved_bytes.h"
#include "ps/transport/zmq/staging.h"

namespace ringside::ps {

struct Socket {
  zmq::socket_t zmq;
  bool inside = false;  // connects a worker and a server of one process
};

/// Where the host does not share the device's memory, messages that leave the process wait until
/// their frames are copied to the host (ps/transport/zmq/staging.h). A later call of a function of
/// the channel sends them.
class ZmqChannel : public Channel {
 public:
  ZmqChannel(Device& device, std::shared_ptr<ZmqContext> zmq_context, const Run& run,
             const TransportOptions& options);

  std::optional<Received> receive(double timeout_s) override;
  std::int64_t moved(int peer) const override {
    const auto found = moved_.find(peer);
    return found == moved_.end() ? 0 : found->second.count();
  }
  Traffic traffic() const override { return traffic_; }

 protected:
  /// Notes the file of the connection to a peer.
  void note_file(int peer, int file) { moved_[peer] = MovedBytes(file); }

  Socket& add_socket(zmq::socket_type type, bool inside);

  /// Blocks until a message comes on any socket or `sending` can take a message, at most
  /// `timeout_s`. Meanwhile sends the messages that become ready.
  void poll(double timeout_s, const Socket* sending);

  /// From now on poll() also returns when one of these items is ready.
  void watch(std::vector<zmq::pollitem_t> items) { watched_ = std::move(items); }

  /// Returns false if the peer takes no message within the deadline. `id` is ZeroMQ's name for the
  /// worker to which a server sends; it is empty on a worker's socket.
  bool send_on(Socket& socket, const std::string& id, Message message,
               zmq::send_flags flags = zmq::send_flags::none);
  static bool send_parts(Socket& socket, const std::string& id, const Parts& parts,
                         zmq::send_flags flags);
  bool send_if_taken(Socket& socket, const std::string& id, Message message);

  /// Whether a message has to wait until its own frames, or those of a message before it, are
  /// copied to the host.
  bool has_to_wait(const Socket& socket, int peer, const Message& message) const;
  bool has_room(int peer) const;
  void stage(int peer, Message message);
  /// Returns false, without throwing, if there is no room or the copies cannot be begun.
  bool try_stage(int peer, Message message);
  /// Sends the messages that are ready; throws as deliver() does.
  void send_ready();
  /// Sends the first message that waits for the peer; blocks until its frames are copied. Returns
  /// false, or throws, as deliver() does.
  bool send_oldest(int peer, zmq::send_flags flags);
  /// Forgets the messages that wait for a peer that is gone.
  void drop(int peer);
  /// Called when the channel is destroyed: sends the waiting messages that become ready within a
  /// second.
  void finish();

  /// Returns the parts of the socket's next message; empty if no message is there.
  static std::vector<zmq::message_t> receive_parts(Socket& socket);
  /// Makes a message of a peer of its parts. Throws Error if the parts are no message, or one that
  /// check() refuses.
  Message open(const Socket& socket, int peer, std::span<zmq::message_t> parts);

  std::vector<Socket>& sockets() { return sockets_; }
  const TransportOptions& options() const { return options_; }
  Device& device() const { return device_; }
  ZmqContext& zmq_context() const { return *zmq_context_; }

 private:
  virtual std::optional<Received> receive_now() = 0;
  /// Returns false if the peer takes no message: at once or within the deadline, depending on
  /// `flags`. Throws Error if the peer is gone.
  virtual bool deliver(int peer, const Parts& parts, zmq::send_flags flags) = 0;
  bool poll_sockets(double timeout_s, const Socket* sending);
  void count_sent(const Parts& parts);
  Tensor adopt(zmq::message_t part, const FrameShape& frame);

  Device& device_;
  std::shared_ptr<ZmqContext> zmq_context_;  // outlives the sockets
  TransportOptions options_;
  bool has_cores_;
  std::vector<Socket> sockets_;
  std::optional<StagedMessages> staged_;  // empty where frames are in the host's memory
  Traffic traffic_;
  std::map<int, MovedBytes> moved_;  // by peer
  std::vector<zmq::pollitem_t> watched_;
};

}  // namespace ringside::ps
