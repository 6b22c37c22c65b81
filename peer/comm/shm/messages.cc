#include "peer/comm/shm/messages.h"

#include <cstring>

#include "core/base/error.h"

namespace ringside::peer {

Messages::Messages(Device& device, Control& control, shm::PeerMemory& memory)
    : device_(device),
      control_(control),
      memory_(memory),
      sending_(static_cast<std::size_t>(control.size())),
      receiving_(static_cast<std::size_t>(control.size())) {}

Messages::~Messages() {
  {
    std::lock_guard lock(mutex_);
    ending_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

WorkPtr Messages::post(Operand operand, bool sending, int peer) {
  auto message = std::make_shared<Message>();
  message->operand = std::move(operand);
  message->sending = sending;
  message->peer = peer;
  message->span.begin = device_.mark();
  {
    std::lock_guard lock(mutex_);
    (sending ? sending_ : receiving_)[static_cast<std::size_t>(peer)].waiting.push_back(message);
    ++waiting_;
  }
  if (!thread_.joinable()) thread_ = std::thread([this] { work(); });
  changed_.notify_one();
  // Wakes a thread that sleeps on the bell because of earlier messages, so that it sees this
  // message.
  control_.of(control_.rank()).bell.increment();
  return std::make_unique<PendingWork>(
      message, mutex_, [this, message](PendingWork::Lock& lock) { run(lock, message.get()); });
}

Traffic Messages::traffic() const {
  std::lock_guard lock(mutex_);
  return traffic_;
}

void Messages::work() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return ending_ || waiting_ > 0; });
    if (waiting_ == 0) return;
    run(lock, nullptr);
  }
}

void Messages::run(std::unique_lock<std::mutex>& lock, const Message* message) {
  shm::Backoff backoff = control_.backoff();
  shm::Flag& bell = control_.of(control_.rank()).bell;
  const auto over = [&] { return message ? message->done : waiting_ == 0; };
  while (!over()) {
    const std::uint32_t seen = bell.value();  // before advance(), so that no wake-up is missed
    if (advance(lock)) {
      backoff.restart();
      continue;
    }
    lock.unlock();
    backoff.pause(bell, seen);
    lock.lock();
  }
}

bool Messages::advance(std::unique_lock<std::mutex>& lock) {
  bool moved = false;
  try {
    control_.throw_if_broken();
    for (int peer = 0; peer < control_.size(); ++peer) {
      moved |= advance_sending(sending_[static_cast<std::size_t>(peer)], peer);
      moved |= advance_receiving(lock, receiving_[static_cast<std::size_t>(peer)], peer);
    }
  } catch (const Error& e) {
    return fail_all(e.what());
  }
  // Wakes a thread of this rank that sleeps until its message is done.
  if (moved) control_.of(control_.rank()).bell.increment();
  return moved;
}

bool Messages::advance_sending(Lane& lane, int to) {
  if (lane.waiting.empty()) return false;
  Control::Lane& shared = control_.lane(Control::Use::messages, control_.rank(), to);
  bool moved = false;
  if (lane.turn == lane.over) {
    begin_turn(lane);
    shared.address = lane.waiting.front()->operand.address;
    shared.posted.set(lane.turn);
    control_.of(to).bell.increment();
    moved = true;
  }
  if (shared.taken.value() != lane.turn) {
    check_peer(lane, shared.taken, control_.rank(), to);
    return moved;
  }
  if (to != control_.rank())
    traffic_.sent += static_cast<std::int64_t>(lane.waiting.front()->operand.address.bytes);
  finish(lane);
  return true;
}

bool Messages::advance_receiving(std::unique_lock<std::mutex>& lock, Lane& lane, int from) {
  if (lane.waiting.empty() || lane.copying) return false;
  Control::Lane& shared = control_.lane(Control::Use::messages, from, control_.rank());
  if (lane.turn == lane.over) begin_turn(lane);
  if (shared.posted.value() != lane.turn) {
    check_peer(lane, shared.posted, from, control_.rank());
    return false;
  }
  const MessagePtr message = lane.waiting.front();
  const Operand& operand = message->operand;
  const shm::Address source = shared.address;
  if (source.bytes != operand.address.bytes)
    control_.fail(unequal_message(
        control_.name(), {lane.turn, control_.number_of(from), control_.number_of(control_.rank())},
        source.bytes, operand.address.bytes));
  if (source.bytes > 0) {
    lane.copying = true;
    lock.unlock();
    std::string error;
    try {
      std::memcpy(operand.tensor.data<std::uint8_t>(), memory_.find(source).get(), source.bytes);
    } catch (const Error& e) {
      error = e.what();
    }
    lock.lock();
    lane.copying = false;
    if (!error.empty()) control_.fail(control_.name() + ": " + error);
  }
  if (from != control_.rank()) traffic_.received += static_cast<std::int64_t>(source.bytes);
  shared.taken.set(lane.turn);
  control_.of(from).bell.increment();
  finish(lane);
  return true;
}

void Messages::begin_turn(Lane& lane) {
  ++lane.turn;
  lane.waiting.front()->waited = control_.begin_wait();
}

void Messages::check_peer(const Lane& lane, const shm::Flag& flag, int from, int to) {
  Message& message = *lane.waiting.front();
  const bool gone = control_.of(message.peer).gone.load() != 0;
  const bool late = message.waited.seconds(control_.now()) > control_.timeout_s();
  if ((!gone && !late) || flag.value() == lane.turn) return;
  control_.fail(missed_message(control_.name(), control_.whole_size(),
                               {lane.turn, control_.number_of(from), control_.number_of(to)},
                               message.operand.address.bytes, control_.number_of(message.peer),
                               gone, control_.timeout_s()));
}

void Messages::finish(Lane& lane) {
  lane.over = lane.turn;
  Message& message = *lane.waiting.front();
  message.operand.tensor = {};
  message.span.end = device_.mark();
  message.done = true;
  lane.waiting.pop_front();
  --waiting_;
}

bool Messages::fail_all(const std::string& what) {
  bool any = false;
  for (auto* lanes : {&sending_, &receiving_})
    for (Lane& lane : *lanes) {
      if (lane.copying) continue;  // the thread that copies will fail this lane afterwards
      for (const MessagePtr& message : lane.waiting) {
        message->error = what;
        message->span.end = device_.mark();
        message->done = true;
        --waiting_;
        any = true;
      }
      lane.waiting.clear();
    }
  if (any) control_.of(control_.rank()).bell.increment();
  return any;
}

}  // namespace ringside::peer
