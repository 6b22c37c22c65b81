// Messages between a worker and a server of one rank.
#pragma once

#include <deque>
#include <mutex>
#include <optional>
#include <utility>

#include "ps/protocol/transport.h"

namespace ringside::ps {

/// A queue of messages that stay within the process. They travel as objects: a frame is the
/// sender's own tensor. Thread-safe; no call blocks.
class InProcessQueue {
 public:
  /// Returns false, and leaves the message as it is, if the queue is full; the sender then counts
  /// as waiting for room.
  bool put(Message& message) {
    const std::lock_guard lock(mutex_);
    sender_waits_ = messages_.size() >= static_cast<std::size_t>(high_water_mark);
    if (sender_waits_) return false;
    messages_.push_back(std::move(message));
    return true;
  }
  /// Returns the oldest message, if there is one, and whether the sender waits for room.
  std::optional<std::pair<Message, bool>> take() {
    const std::lock_guard lock(mutex_);
    if (messages_.empty()) return {};
    std::pair<Message, bool> out{std::move(messages_.front()), sender_waits_};
    messages_.pop_front();
    sender_waits_ = false;
    return out;
  }
  bool empty() {
    const std::lock_guard lock(mutex_);
    return messages_.empty();
  }
  void clear() {
    std::deque<Message> messages;  // ends after the lock
    const std::lock_guard lock(mutex_);
    messages.swap(messages_);
  }

 private:
  std::mutex mutex_;
  std::deque<Message> messages_;
  bool sender_waits_ = false;
};

/// Both directions; the threads of a rank share one object (RankContext::shared).
struct InProcessQueues {
  InProcessQueue to_server, to_worker;
};

}  // namespace ringside::ps
