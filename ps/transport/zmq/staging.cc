#include "ps/transport/zmq/staging.h"

#include <algorithm>

namespace ringside::ps {

void StagedMessages::add(int peer, Parts parts) {
  Waiting message{std::move(parts), {}};
  for (const Tensor& frame : message.parts.frames)
    message.copies.push_back(frame.bytes() > 0 ? staging_->out(frame) : nullptr);
  waiting_[peer].push_back(std::move(message));
}

std::size_t StagedMessages::waiting(int peer) const {
  const auto found = waiting_.find(peer);
  return found == waiting_.end() ? 0 : found->second.size();
}

void StagedMessages::send_ready(const Send& send) {
  for (auto peer = waiting_.begin(); peer != waiting_.end();) {
    std::deque<Waiting>& messages = peer->second;
    try {
      while (!messages.empty() && ready(messages.front()) &&
             send(peer->first, messages.front().parts))
        messages.pop_front();
    } catch (...) {
      waiting_.erase(peer);
      throw;
    }
    peer = messages.empty() ? waiting_.erase(peer) : std::next(peer);
  }
}

bool StagedMessages::send_oldest(int peer, const Send& send) {
  const auto line = waiting_.find(peer);
  try {
    Waiting& oldest = line->second.front();
    for (const auto& copy : oldest.copies)
      if (copy) copy->wait();
    if (!ready(oldest) || !send(peer, oldest.parts)) return false;
  } catch (...) {
    waiting_.erase(line);
    throw;
  }
  line->second.pop_front();
  if (line->second.empty()) waiting_.erase(line);
  return true;
}

bool StagedMessages::ready(Waiting& message) {
  const auto there = [](const auto& copy) { return !copy || copy->ready(); };
  if (!std::all_of(message.copies.begin(), message.copies.end(), there)) return false;
  for (std::size_t i = 0; i < message.copies.size(); ++i)
    if (message.copies[i]) message.parts.frames[i] = message.copies[i]->host();
  message.copies.clear();
  return true;
}

}  // namespace ringside::ps
