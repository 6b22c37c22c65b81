// Replies: the messages that a server sends in answer to those of its workers.
#pragma once

#include <iterator>
#include <utility>
#include <vector>

#include "ps/protocol/message.h"

namespace ringside::ps {

struct Reply {
  int worker = 0;
  Message message;
};
using Replies = std::vector<Reply>;

inline void append(Replies& replies, Replies more) {
  replies.insert(replies.end(), std::make_move_iterator(more.begin()),
                 std::make_move_iterator(more.end()));
}
/// A reply to one worker alone.
inline Replies one_reply(int worker, Message message) {
  Replies replies;
  replies.push_back({worker, std::move(message)});
  return replies;
}

}  // namespace ringside::ps
