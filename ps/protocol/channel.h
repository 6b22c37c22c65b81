// Channel: one end of the messages between a worker and its servers.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "core/base/traffic.h"
#include "ps/protocol/archive.h"
#include "ps/protocol/message.h"

namespace ringside::ps {

struct Received {
  int peer = 0;
  Message message;
};

/// The error of a peer that is gone and cannot get a message that send() has accepted.
class PeerGone : public Error {
 public:
  PeerGone(int peer, const std::string& cause) : Error("{}", cause), peer(peer) {}
  int peer;
};

/// The error of a server whose worker's first message cannot be read: the run cannot go on without
/// this worker.
inline Error other_program(int server, int worker, const Unreadable& cause) {
  return Error("server {} refuses worker {}: {}; start all ranks with the same program", server,
               worker, cause.what());
}

/// Tells a slow link from silence. For one peer of a channel.
class SlowLink {
 public:
  /// A message has come, or the wait begins.
  void begin(std::int64_t moved) { moved_ = moved; }
  /// Whether more bytes have moved than messages that only say "alive" have, since begin() or since
  /// this was true.
  bool flows(std::int64_t moved) {
    constexpr std::int64_t least = 4096;
    if (moved - moved_ < least) return false;
    moved_ = moved;
    return true;
  }

 private:
  std::int64_t moved_ = 0;
};

/// One end of the connections between the workers and the servers of a run. The end belongs to a
/// worker (its peers are servers) or to a server (its peers are workers). Messages between two
/// peers arrive once and in order; none is lost unless a peer dies. Only one thread may use
/// the channel at a time.
class Channel {
 public:
  virtual ~Channel() = default;

  /// Hands the message over. Its frames belong to the channel until the peer has them, and their
  /// memory must not change before the peer answers. Blocks while too many messages are under way
  /// to that peer. Throws Error that names the peer if the peer is gone or takes no message within
  /// the channel's deadline. A server can send only to a worker that has sent it a message before.
  /// Where the host does not share the device's memory, the frames are copied first. In this case
  /// the message leaves during a later call of any function of the channel, or when the channel is
  /// destroyed. If it cannot be sent in a later call, that call throws the error on a worker; on a
  /// server, the next receive() throws PeerGone, or the next send() to this worker does.
  virtual void send(int peer, Message message) = 0;

  /// Sends without blocking and without throwing, for the last message of a failing end. Returns
  /// false if the peer takes no message now or is gone.
  virtual bool try_send(int peer, Message message) = 0;

  /// Returns the next message of any peer, or none after `timeout_s` (with 0 the call does not
  /// block). Received frames count as memory of kind communication until their last view is gone. A
  /// server answers a message from outside the run, or with an invalid header, with an error, and
  /// skips it. If a worker's first message has an invalid header, the server throws Error too,
  /// because the worker runs another program. A worker throws Error for an invalid header.
  virtual std::optional<Received> receive(double timeout_s) = 0;

  /// Looks at a message before its frames are taken; throws Error to refuse it.
  using Check =
      std::function<void(int peer, const Header& header, std::span<const FrameShape> frames)>;
  /// From now on receive() passes each message of another process to `check`. A message that
  /// `check` refuses is answered with an error and dropped.
  virtual void check_with(Check check) { check_ = std::move(check); }

  /// On a server: the process of this worker has ended, and what it has sent and this end has not
  /// received is dropped. From now on the worker's process number `process` may connect; returns
  /// the address that it needs. Throws Error if this transport cannot do that.
  virtual std::string admit_again(int peer, std::int64_t process) {
    throw Error("process {} of worker {} cannot connect over this transport", process, peer);
  }

  /// The bytes that the connection to a peer has moved so far, in parts of messages too; grows
  /// while bytes flow. 0: not known, as where nothing slows a message down.
  virtual std::int64_t moved(int peer) const {
    (void)peer;
    return 0;
  }

  /// Bytes of headers and frames that left or reached this rank; data that stays in the rank is not
  /// counted.
  virtual Traffic traffic() const = 0;

 protected:
  const Check& check() const { return check_; }

 private:
  Check check_;
};

}  // namespace ringside::ps
