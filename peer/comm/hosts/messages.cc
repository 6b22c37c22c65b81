#include "peer/comm/hosts/messages.h"

#include "core/base/batch_scheduling.h"
#include "core/base/error.h"

namespace ringside::peer {

HostMessages::~HostMessages() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  changed_.notify_all();
  for (auto& [key, lane] : lanes_)
    if (lane.thread.joinable()) lane.thread.join();
}

WorkPtr HostMessages::begin(const Tensor& array, int peer, bool sends) {
  auto message = std::make_shared<Message>();
  message->array = array;
  message->own_bytes = array.bytes();
  message->span.begin = device_.mark();
  {
    const std::lock_guard lock(mutex_);
    Lane& lane = lanes_[{peer, sends}];
    lane.peer = peer;
    lane.sends = sends;
    message->number = ++lane.messages;
    start(lane, *message);
    lane.waiting.push_back(message);
    if (!lane.thread.joinable()) lane.thread = std::thread([this, &lane] { work(lane); });
  }
  changed_.notify_all();
  return std::make_unique<PendingWork>(message, mutex_, [this, message](PendingWork::Lock& lock) {
    changed_.wait(lock, [&] { return message->done; });
  });
}

void HostMessages::start(const Lane& lane, Message& message) {
  using Where = Wire::Lane;
  auto* const body = reinterpret_cast<std::byte*>(message.array.data<std::uint8_t>());
  std::byte* const head = reinterpret_cast<std::byte*>(&message.bytes);
  Wire& wire = host_group_.wire();
  try {
    if (lane.sends) {
      message.bytes = message.own_bytes;
      message.head = wire.send(lane.peer, Where::message_heads, {head, sizeof message.bytes});
      if (message.own_bytes > 0)
        message.body = wire.send(lane.peer, Where::messages, {body, message.own_bytes});
    } else {
      message.head = wire.receive(lane.peer, Where::message_heads, {head, sizeof message.bytes});
      if (message.own_bytes > 0)
        message.body = wire.receive(lane.peer, Where::messages, {body, message.own_bytes});
    }
  } catch (const Error& e) {
    message.error = e.what();  // the thread of the lane breaks the group
  }
}

void HostMessages::finish(const Lane& lane, Message& message) {
  const Group& group = host_group_.group();
  const MessageName name{message.number, lane.sends ? group.rank : lane.peer,
                         lane.sends ? lane.peer : group.rank};
  const auto missed = [&](bool gone) {
    return missed_message(group.name, group.size, name, message.own_bytes, lane.peer, gone,
                          host_group_.hosts().timeout_s);
  };
  host_group_.control().throw_if_broken();
  if (!message.error.empty()) host_group_.fail_gone({lane.peer}, message.error, missed(true));
  host_group_.wait(*message.head, lane.peer, missed);
  if (message.bytes != message.own_bytes)
    host_group_.fail(unequal_message(group.name, name, message.bytes, message.own_bytes));
  if (message.body) host_group_.wait(*message.body, lane.peer, missed);
  const auto bytes = static_cast<std::int64_t>(message.bytes);
  host_group_.count(lane.sends ? bytes : 0, lane.sends ? 0 : bytes);
}

void HostMessages::work(Lane& lane) {
  const BatchScheduling scheduling;
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return ending_ || !lane.waiting.empty(); });
    if (lane.waiting.empty()) return;
    const MessagePtr message = lane.waiting.front();
    lock.unlock();
    std::string error;
    try {
      finish(lane, *message);
    } catch (const std::exception& e) {
      error = e.what();
    }
    message->head.reset();
    message->body.reset();
    lock.lock();
    message->error = error;
    message->array = {};
    message->span.end = device_.mark();
    message->done = true;
    lane.waiting.pop_front();
    changed_.notify_all();
  }
}

}  // namespace ringside::peer
