// Channel: moves messages between a worker and its servers.
#pragma once

#include <memory>
#include <optional>

#include "core/base/traffic.h"
#include "ps/protocol/message.h"

namespace ringside::ps {

struct Received {
  int peer = 0;
  Message message;
};

/// One end of the connections between the workers and the servers of a run: a worker's (its peers
/// are servers) or a server's (its peers are workers). Messages between two peers arrive once and
/// in order; nothing is lost unless a peer dies. For one thread at a time.
class Channel {
 public:
  virtual ~Channel() = default;

  /// Hands the message over; its frames belong to the channel until the peer has them, and their
  /// memory must not change before the peer's answer. Blocks while too much is under way to that
  /// peer. Throws Error that names the peer if it is gone or takes nothing for the channel's
  /// deadline. A server can only send to a worker that it has heard of. Where the host does not
  /// share the device's memory, a message goes when copies of its frames are there, with a later
  /// call of the channel or its end; an Error about it is that call's.
  virtual void send(int peer, Message message) = 0;

  /// Sends without blocking and without errors, for last words: false if the peer takes nothing
  /// now or is gone.
  virtual bool try_send(int peer, Message message) = 0;

  /// The next message of any peer; none after `timeout_s` (0: does not block). Received frames are
  /// counted as kind communication until their last view is gone. Senders that cannot be of this
  /// run, and headers that make no sense, are answered with an error and passed over.
  virtual std::optional<Received> receive(double timeout_s) = 0;

  /// Headers and frames that left or reached this rank; what stays within it is free.
  virtual Traffic traffic() const = 0;
};

}  // namespace ringside::ps
