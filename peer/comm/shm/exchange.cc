#include "peer/comm/shm/exchange.h"

#include <algorithm>
#include <cstring>

#include "peer/comm/sum.h"

namespace ringside::peer {

ShmExchange::ShmExchange(Control& control, shm::PeerMemory& memory, std::uint64_t number,
                         const Collective& call, const std::vector<Operand>& operands)
    : control_(control),
      memory_(memory),
      number_(number),
      call_(call),
      operands_(operands),
      hosts_(static_cast<std::size_t>(control.size())) {}

std::size_t ShmExchange::bytes(const Elements& elements) const {
  return static_cast<std::size_t>(elements.count) * size_of(of(elements.array).tensor.dtype());
}

std::byte* ShmExchange::data(const Elements& elements) const {
  const Tensor& tensor = of(elements.array).tensor;
  return reinterpret_cast<std::byte*>(tensor.data<std::uint8_t>()) +
         static_cast<std::size_t>(elements.begin) * size_of(tensor.dtype());
}

shm::Address ShmExchange::address(const Elements& elements) const {
  if (elements.count == 0) return {};
  const auto& [tensor, whole] = of(elements.array);
  shm::Address out = whole;
  out.offset += static_cast<std::size_t>(elements.begin) * size_of(tensor.dtype());
  out.bytes = bytes(elements);
  return out;
}

void ShmExchange::step(const std::vector<Sending>& sends, const std::vector<Receiving>& receives) {
  std::vector<Pending> messages;
  for (const Sending& one : sends) messages.push_back({one.to, one.from});
  for (const Receiving& one : receives) messages.push_back({one.from, one.into, &one});
  WaitingTime waited = control_.begin_wait();
  shm::Backoff backoff = control_.backoff();
  shm::Flag& bell = control_.of(rank()).bell;
  for (;;) {
    const std::uint32_t seen = bell.value();  // before advance(), so that no wake-up is missed
    bool moved = false, all_done = true;
    for (auto message = messages.begin(); message != messages.end(); ++message) {
      if (message->done) continue;
      const bool waits = std::any_of(messages.begin(), message, [&](const Pending& earlier) {
        return !earlier.done && earlier.peer == message->peer &&
               (earlier.receiving == nullptr) == (message->receiving == nullptr);
      });
      if (!waits) moved |= advance(*message);
      all_done = all_done && message->done;
    }
    if (all_done) return control_.note_no_waiting();
    if (moved) {
      backoff.restart();
      waited = control_.begin_wait();
      continue;
    }
    control_.throw_if_broken();
    for (const Pending& message : messages)
      if (!message.done) check_peer(message, waited.seconds(control_.now()));
    backoff.pause(bell, seen);
  }
}

Control::Lane& ShmExchange::lane(const Pending& message) const {
  const bool sends = message.receiving == nullptr;
  return control_.lane(Control::Use::steps, sends ? rank() : message.peer,
                       sends ? message.peer : rank());
}

bool ShmExchange::advance(Pending& message) {
  Control::Lane& lane = this->lane(message);
  const bool sends = message.receiving == nullptr;
  // Only this rank changes the flag that it reads here, so the flag counts this rank's messages.
  if (!message.turn) {
    message.turn = (sends ? lane.posted : lane.taken).value() + 1;
    if (sends) {
      lane.address = address(message.elements);
      lane.posted.set(*message.turn);
      control_.of(message.peer).bell.increment();
      return true;
    }
  }
  if ((sends ? lane.taken : lane.posted).value() != message.turn) return false;
  const auto moved = static_cast<std::int64_t>(bytes(message.elements));
  if (sends) {
    traffic_.sent += moved;
  } else {
    receive(message, lane.address);
    lane.taken.set(*message.turn);
    control_.of(message.peer).bell.increment();
    traffic_.received += moved;
  }
  message.done = true;
  return true;
}

void ShmExchange::receive(const Pending& message, const shm::Address& source) {
  const std::size_t size = bytes(message.elements);
  if (source.bytes != size)
    control_.fail(unequal_message(control_.name(), {*message.turn, message.peer, rank()},
                                  source.bytes, size));
  if (size == 0) return;
  const std::shared_ptr<std::byte> held = memory_.find(source);
  std::byte* into = data(message.elements);
  if (!message.receiving->plus) {
    std::memcpy(into, held.get(), size);
    return;
  }
  const std::byte* const sources[] = {data(*message.receiving->plus), held.get()};
  sum_in_order(of(message.elements.array).tensor.dtype(), sources, {&into, 1},
               static_cast<std::size_t>(message.elements.count));
}

void ShmExchange::check_peer(const Pending& message, double waited_s) {
  control_.note_waiting(message.peer);
  const bool gone = control_.of(message.peer).gone.load() != 0;
  if (!gone && waited_s <= control_.timeout_s()) return;
  const int late = control_.rank_in_the_way(message.peer);
  const std::string who = list_ranks(control_.size(), [late](int r) { return r == late; });
  control_.fail_waiting(
      control_.of(late).gone.load() != 0
          ? ended_during(control_.name(), who, number_, call_)
          : did_not_go_on(control_.name(), who, number_, call_, control_.timeout_s()));
}

void ShmExchange::copy(const Elements& from, const Elements& to) {
  if (from.count > 0 && data(from) != data(to)) std::memcpy(data(to), data(from), bytes(from));
}

void ShmExchange::add(const Elements& from, const Elements& to) {
  if (from.count == 0) return;
  std::byte* into = data(to);
  const std::byte* const sources[] = {into, data(from)};
  sum_in_order(of(to.array).tensor.dtype(), sources, {&into, 1},
               static_cast<std::size_t>(from.count));
}

}  // namespace ringside::peer
