// Messages from a device whose memory the host cannot read.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "core/device/staging.h"
#include "ps/protocol/message.h"

namespace ringside::ps {

/// A message as it leaves the process: the encoded header, and the frames in the host's memory.
struct Parts {
  Kind kind = Kind::alive;
  std::vector<std::byte> header;
  std::vector<Tensor> frames;
};

/// Messages that wait until their frames are copied to the host. Messages to one peer leave in the
/// order in which they were added; messages to different peers do not wait for each other. Has no
/// thread of its own: it sends only while one of its functions is called. For one thread.
class StagedMessages {
 public:
  explicit StagedMessages(std::unique_ptr<Staging> staging) : staging_(std::move(staging)) {}

  /// Begins to copy the frames, which lie on the device. Does not block.
  void add(int peer, Parts parts);
  bool empty() const { return waiting_.empty(); }
  std::size_t waiting(int peer) const;
  /// Forgets the messages to a peer.
  void drop(int peer) { waiting_.erase(peer); }

  /// Sends a message; returns false if the peer takes no message now.
  using Send = std::function<bool(int peer, const Parts& parts)>;
  /// Sends the messages whose frames are copied. Does not block if `send` does not. If `send` or
  /// the device throws Error for a message, all messages to the peer of that message are dropped
  /// and the error is thrown on.
  void send_ready(const Send& send);
  /// Sends the oldest message to the peer; there must be one. Blocks until its frames are copied.
  /// Returns false, or throws, as `send` does.
  bool send_oldest(int peer, const Send& send);

  /// Copies a received frame to the device. `host` may be reused when the call returns.
  Tensor in(const Tensor& host) { return staging_->in(host); }

 private:
  struct Waiting {
    Parts parts;
    std::vector<std::unique_ptr<Outgoing>> copies;  // by frame; null: needs no copy
  };
  /// Once all frames are copied, moves the copies into the message and returns true.
  static bool ready(Waiting& message);

  std::unique_ptr<Staging> staging_;
  std::map<int, std::deque<Waiting>> waiting_;  // by peer; no queue is empty
};

}  // namespace ringside::ps
