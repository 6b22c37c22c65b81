#include "peer/comm/sim/messages.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "core/base/error.h"
#include "peer/comm/collective.h"
#include "peer/comm/sim/routes.h"
#include "peer/comm/sum.h"

namespace ringside::peer {
namespace {

std::byte* first_byte(const Tensor& tensor) {
  return reinterpret_cast<std::byte*>(tensor.data<std::uint8_t>());
}

void move_bytes(const SimMessages::Message& sent, const SimMessages::Message& received) {
  std::byte* const source = first_byte(sent.tensor);
  std::byte* const target = first_byte(received.tensor);
  if (!source || !target) return;
  if (received.plus) {
    const std::byte* const sources[] = {first_byte(received.plus), source};
    sum_in_order(received.tensor.dtype(), sources, {&target, 1},
                 static_cast<std::size_t>(received.tensor.count()));
  } else if (source != target) {
    std::memmove(target, source, sent.bytes);
  }
}

}  // namespace

SimMessages::MessagePtr SimMessages::post(const Tensor& tensor, bool sending, int from, int to,
                                          const Tensor& plus) {
  group_.throw_if_broken();
  sim::World& world = group_.world();
  auto message = std::make_shared<Message>();
  message->tensor = tensor;
  message->plus = plus;
  message->bytes = tensor.bytes();
  message->sending = sending;
  message->from = from;
  message->to = to;
  message->begin = world.now();
  message->changed = world.make_event();
  Lane& lane = lanes_[{from, to}];
  (sending ? lane.sending : lane.receiving).push_back(message);
  if (!lane.changed) {
    lane.changed = world.make_event();
    world.spawn(
        fmt::format("{} messages {} to {}", group_.name(), from, to), group_.place(from),
        [this, group = group_.shared_from_this(), &lane, from, to] { serve(lane, from, to); },
        true);
  }
  lane.changed->notify_all();
  return message;
}

void SimMessages::serve(Lane& lane, int from, int to) {
  while (!group_.closed() && !group_.broken()) {
    if (lane.sending.empty() || lane.receiving.empty() || !mismatch(lane, from, to).empty()) {
      lane.changed->wait(sim::for_ever);
      continue;
    }
    carry(lane, from, to);
    if (!group_.broken()) finish(lane);
  }
}

void SimMessages::carry(const Lane& lane, int from, int to) const {
  sim::World& world = group_.world();
  if (const std::optional<double> stated = group_.options().message_s) {
    if (*stated > 0) world.sleep(*stated);
    return;
  }
  const sim::Place source = group_.place(from), target = group_.place(to);
  const auto bytes = static_cast<double>(lane.sending.front()->bytes);
  if (use_ == Use::steps && group_.shares_memory()) {
    const bool sums = static_cast<bool>(lane.receiving.front()->plus);
    const double moved = bytes * (sums ? 3 : 2);
    world.start_work(target, seconds_in_memory(world.cluster(), target, moved, sums))->wait();
    return;
  }
  const double latency = world.latency(source, target);
  const double step = step_seconds(world, source, target);
  if (step > latency) world.sleep(step - latency);
  const auto flow = world.start_flow(source, target, bytes);
  if (sim::shares_memory(world.cluster()) && source.machine != target.machine) {
    const double busy = 1e-12 * world.cluster().collective.network_us_per_mb * bytes;
    const auto sends = world.start_work(source, busy), receives = world.start_work(target, busy);
    for (const auto* end : {&sends, &receives}) (*end)->wait();
  }
  flow->wait();
}

void SimMessages::finish(Lane& lane) {
  const MessagePtr sent = lane.sending.front(), received = lane.receiving.front();
  lane.sending.pop_front();
  lane.receiving.pop_front();
  ++lane.over;
  lane.last_end = group_.world().now();
  move_bytes(*sent, *received);
  if (sent->from != sent->to) {
    group_.traffic(sent->from).sent += static_cast<std::int64_t>(sent->bytes);
    group_.traffic(sent->to).received += static_cast<std::int64_t>(sent->bytes);
  }
  for (const MessagePtr& message : {sent, received}) {
    message->tensor = message->plus = {};
    message->end = lane.last_end;
    message->done = true;
  }
  for (const MessagePtr& message : {sent, received}) message->changed->notify_all();
}

std::string SimMessages::mismatch(const Lane& lane, int from, int to) const {
  const std::uint64_t sent = lane.sending.front()->bytes, received = lane.receiving.front()->bytes;
  if (sent == received) return {};
  return unequal_message(group_.name(), {lane.over + 1, from, to}, sent, received);
}

void SimMessages::await(const Message& message) {
  const Lane& lane = lanes_.at({message.from, message.to});
  while (!message.done) {
    group_.throw_if_broken();
    const MessagePtr turn = (message.sending ? lane.sending : lane.receiving).front();
    double left = sim::for_ever;
    if (!lane.sending.empty() && !lane.receiving.empty()) {
      if (const auto text = mismatch(lane, message.from, message.to); !text.empty())
        group_.fail(text);
    } else {
      const double begin = std::max(turn->begin, lane.last_end);
      left = begin + group_.options().timeout_s - group_.world().now();
      const bool gone = group_.gone(message.peer());
      if (use_ == Use::steps)
        left = sim::for_ever;
      else if (gone || left <= sim::moment)
        group_.fail(missed_message(group_.name(), group_.size(),
                                   {lane.over + 1, message.from, message.to}, turn->bytes,
                                   message.peer(), gone, group_.options().timeout_s));
    }
    turn->changed->wait(left);
  }
}

void SimMessages::wake_all() {
  // Collects all messages and events before it wakes an actor, because a woken actor may change the
  // lanes.
  std::vector<MessagePtr> messages;
  std::vector<sim::Event*> services;
  for (const auto& [pair, lane] : lanes_) {
    for (const auto* line : {&lane.sending, &lane.receiving})
      messages.insert(messages.end(), line->begin(), line->end());
    services.push_back(lane.changed.get());
  }
  for (const MessagePtr& message : messages) message->changed->notify_all();
  for (sim::Event* event : services) event->notify_all();
}

void SimMessages::drop_tensors() {
  for (auto& [pair, lane] : lanes_)
    for (auto* line : {&lane.sending, &lane.receiving}) {
      for (const MessagePtr& message : *line) message->tensor = message->plus = {};
    }
}

}  // namespace ringside::peer
