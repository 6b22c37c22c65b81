// Messages from a device whose memory the host does not share.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "core/device/staging.h"
#include "ps/protocol/message.h"

namespace ringside::ps {

/// A message as it leaves the process: the encoded header, and frames in the host's memory.
struct Parts {
  Kind kind = Kind::alive;
  std::vector<std::byte> header;
  std::vector<Tensor> frames;
};

/// Messages that wait for copies of their frames to the host. To one peer they go in the order in
/// which they came; no peer waits for another's. Nothing happens outside of its calls. For one
/// thread.
class StagedMessages {
 public:
  explicit StagedMessages(std::unique_ptr<Staging> staging) : staging_(std::move(staging)) {}

  /// Begins the copies of the frames, which are of the device. Does not block.
  void add(int peer, Parts parts);
  bool empty() const { return waiting_.empty(); }
  std::size_t waiting(int peer) const;

  /// Sends a message; false: the peer takes nothing now.
  using Send = std::function<bool(int peer, const Parts& parts)>;
  /// Sends what is ready. Does not block if `send` does not. If `send` or the device throws Error,
  /// the messages to that peer are dropped.
  void send_ready(const Send& send);
  /// Sends the oldest message to the peer, which there must be; blocks until its copies are ready.
  /// False and throws as `send` does.
  bool send_oldest(int peer, const Send& send);

  /// A received frame on the device; `host` may be reused when the call returns.
  Tensor in(const Tensor& host) { return staging_->in(host); }

 private:
  struct Waiting {
    Parts parts;
    std::vector<std::unique_ptr<Outgoing>> copies;  // by frame; null: needs none
  };
  /// Gives the message its frames once all of them are there.
  static bool ready(Waiting& message);

  std::unique_ptr<Staging> staging_;
  std::map<int, std::deque<Waiting>> waiting_;  // by peer; none is empty
};

}  // namespace ringside::ps
