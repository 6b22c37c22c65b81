// The order in which a channel's end takes the messages of its peers.
#pragma once

#include <deque>
#include <optional>
#include <utility>

#include "core/base/error.h"
#include "ps/protocol/channel.h"

namespace ringside::ps {

/// Takes messages from the peers in turn, so that a busy one delays no other, and stores those that
/// arrive while a worker is blocked in a send. A `take` gets a peer's number, below `peers`, and
/// returns the peer's next message, or none. For one thread.
class Inbox {
 public:
  /// Returns the oldest stored message, or else the next message of a peer; none if no peer has
  /// one.
  template <class Take>
  std::optional<Received> next(int peers, Take take) {
    if (early_.empty()) return first(peers, take);
    Received oldest = std::move(early_.front());
    early_.pop_front();
    return oldest;
  }

  /// For a worker that is blocked in a send: takes all messages and stores them for next(). Returns
  /// whether there were any. Throws Error for a server's error, which may be the reason why the
  /// server takes no message.
  template <class Take>
  bool keep_all(int peers, Take take) {
    bool any = false;
    while (std::optional<Received> received = first(peers, take)) {
      any = true;
      const Header& header = received->message.header;
      if (header.kind == Kind::error) throw Error("server {}: {}", received->peer, header.text);
      early_.push_back(std::move(*received));
    }
    return any;
  }

  /// Whether no message is stored.
  bool empty() const { return early_.empty(); }

 private:
  template <class Take>
  std::optional<Received> first(int peers, Take& take) {
    for (int i = 0; i < peers; ++i) {
      const int peer = (next_ + i) % peers;
      std::optional<Received> received = take(peer);
      if (!received) continue;
      next_ = peer + 1;
      return received;
    }
    return {};
  }

  int next_ = 0;  // the peer whose message is taken first
  std::deque<Received> early_;
};

}  // namespace ringside::ps
