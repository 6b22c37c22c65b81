#include "ps/transport/shm/channel.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <numeric>
#include <thread>
#include <utility>

#include "core/base/error.h"
#include "ps/protocol/archive.h"

namespace ringside::ps {
namespace {

/// The time for which an end that closes waits for peers that still read its memory.
constexpr double last_moment_s = 1;
/// A receiver that holds the frames of this many messages of one sender is asked to copy further
/// ones. The words beyond are for messages that are still in the ring.
constexpr std::size_t most_held = Ring::releases - high_water_mark;

/// Sets a release word when the last view of a message's frames is gone.
class Release {
 public:
  Release(std::shared_ptr<SharedRegion> region, std::atomic<std::uint32_t>& word,
          std::weak_ptr<void> sender)
      : region_(std::move(region)), word_(word), sender_(std::move(sender)) {}
  ~Release() {
    if (!sender_.expired()) word_.store(1, std::memory_order_release);
  }
  Release(const Release&) = delete;
  Release& operator=(const Release&) = delete;

 private:
  std::shared_ptr<SharedRegion> region_;  // keeps the word mapped
  std::atomic<std::uint32_t>& word_;
  std::weak_ptr<void> sender_;  // the process to which the word belongs
};

}  // namespace

ShmChannel::ShmChannel(Device& device, std::shared_ptr<SharedRegion> region, SharedRegion::End& own,
                       std::shared_ptr<InProcessQueues> inside, const TransportOptions& options)
    : device_(device),
      region_(std::move(region)),
      own_(own),
      inside_(std::move(inside)),
      options_(options) {
  own_.gone.store(0);  // a process before may have left this end
  own_.process.store(getpid(), std::memory_order_release);
}

ShmChannel::~ShmChannel() {
  own_.gone.store(1);
  for (const auto& peer : peers_) {
    if (peer->queue_in) peer->queue_in->clear();
    peer->end->bell.increment();
  }
  const double end = device_.clock().now() + last_moment_s;
  const auto reads = [&](const auto& peer) {
    collect(*peer);
    return !peer->in_use.empty() && !peer->watch.gone(*peer->end);
  };
  while (std::any_of(peers_.begin(), peers_.end(), reads) && device_.clock().now() < end)
    std::this_thread::sleep_for(std::chrono::microseconds(200));
}

Peer& ShmChannel::add_peer(SharedRegion::End& end, Ring& in, Ring& out) {
  const auto number = static_cast<int>(peers_.size());
  auto& peer = *peers_.emplace_back(std::make_unique<Peer>());
  peer.number = number;
  peer.end = &end;
  peer.in = &in;
  peer.out = &out;
  set_free(peer);
  return peer;
}

/// The peer reads no frame of this end.
void ShmChannel::set_free(Peer& peer) {
  peer.held.assign(Ring::releases, {});
  peer.in_use.clear();
  peer.free.resize(Ring::releases);
  std::iota(peer.free.rbegin(), peer.free.rend(), 0U);
  peer.process_lives = std::make_shared<char>();
}

void ShmChannel::begin_anew(Peer& peer) {
  peer.in->clear();
  peer.out->clear();
  set_free(peer);
  peer.watch.begin_anew();
  peer.process = 0;
  peer.came = peer.broken = false;
}

Peer& ShmChannel::add_inside_peer(SharedRegion::End& end, InProcessQueue& in, InProcessQueue& out) {
  const auto number = static_cast<int>(peers_.size());
  auto& peer = *peers_.emplace_back(std::make_unique<Peer>());
  peer.number = number;
  peer.end = &end;
  peer.queue_in = &in;
  peer.queue_out = &out;
  return peer;
}

std::optional<Received> ShmChannel::receive(double timeout_s) {
  for (const auto& peer : peers_) collect(*peer);
  if (auto received = receive_now()) return received;
  if (timeout_s <= 0) return {};
  const Clock& clock = device_.clock();
  double checked = clock.now();
  const double deadline = checked + timeout_s;
  shm::Backoff backoff = this->backoff();
  for (;;) {
    const std::uint32_t seen = own_.bell.value();
    if (auto received = receive_now()) return received;
    const double now = clock.now();
    if (now >= deadline) return {};
    if (now - checked >= shm::Flag::longest_sleep_s / 2) {
      checked = now;
      check_peers();
    }
    backoff.pause(own_.bell, seen, deadline - now);
  }
}

Outbound ShmChannel::pack(const Peer& peer, Message message) {
  std::vector<std::byte> header;
  if (peer.out) header = encode(message);
  return {std::move(message), std::move(header)};
}

bool ShmChannel::try_offer(Peer& peer, Message message) {
  try {
    Outbound outbound = pack(peer, std::move(message));
    return !peer.watch.gone(*peer.end) && offer(peer, outbound);
  } catch (const std::exception&) {
    return false;
  }
}

bool ShmChannel::offer(Peer& peer, Outbound& outbound) {
  if (peer.queue_out) {
    if (!peer.queue_out->put(outbound.message)) return false;
    peer.end->bell.increment();
    return true;
  }
  collect(peer);
  std::vector<Tensor>& frames = outbound.message.frames;
  if (frames.size() > Ring::most_frames)
    throw Error("a message has {} frames, but shared memory takes at most {}", frames.size(),
                Ring::most_frames);
  if (!peer.out->has_room(outbound.header.size(), frames.size())) return false;
  if (!frames.empty() && peer.free.empty()) return false;
  Record record{0, peer.in_use.size() >= most_held, {}, outbound.header};
  auto bytes = static_cast<std::int64_t>(outbound.header.size());
  for (Tensor& frame : frames) {
    frame = symmetric(frame);
    record.frames.push_back(memory_.publish(frame));
    bytes += static_cast<std::int64_t>(frame.bytes());
  }
  if (!frames.empty()) {
    record.release = peer.free.back();
    peer.out->released(record.release).store(0, std::memory_order_relaxed);
  }
  if (!peer.out->put(record)) return false;
  if (!frames.empty()) {
    peer.free.pop_back();
    peer.in_use.push_back(record.release);
    peer.held[record.release] = std::move(frames);
  }
  peer.end->bell.increment();
  traffic_.sent += bytes;
  return true;
}

Tensor ShmChannel::symmetric(const Tensor& frame) const {
  if (frame.bytes() == 0 || frame.buffer()->address().file >= 0) return frame;
  Tensor copy = device_.tensor(frame.shape(), MemoryKind::communication, frame.dtype());
  device_.read(frame, std::as_writable_bytes(std::span(copy.data<std::uint8_t>(), copy.bytes())));
  return copy;
}

void ShmChannel::collect(Peer& peer) {
  std::erase_if(peer.in_use, [&](std::uint32_t release) {
    if (peer.out->released(release).load(std::memory_order_acquire) == 0) return false;
    peer.held[release].clear();
    peer.free.push_back(release);
    return true;
  });
}

std::optional<Message> ShmChannel::take(Peer& peer) {
  if (peer.queue_in) {
    auto taken = peer.queue_in->take();
    if (!taken) return {};
    if (taken->second) peer.end->bell.increment();
    peer.came = true;
    return std::move(taken->first);
  }
  if (peer.broken) return {};
  std::optional<Record> record;
  try {
    record = peer.in->take();
  } catch (...) {
    peer.broken = true;
    throw;
  }
  if (!record) return {};
  if (peer.in->sender_waits()) peer.end->bell.increment();
  if (!peer.came) peer.process = peer.end->process.load(std::memory_order_acquire);
  peer.came = true;
  return open(peer, std::move(*record));
}

Message ShmChannel::open(Peer& peer, Record record) {
  std::shared_ptr<void> release;
  if (!record.frames.empty())
    release =
        std::make_shared<Release>(region_, peer.in->released(record.release), peer.process_lives);
  const Decoded decoded = decode(record.header);
  traffic_.received += static_cast<std::int64_t>(record.header.size());
  if (decoded.frames.size() != record.frames.size())
    throw Error("message: it has {} frames, but its header says {}", record.frames.size(),
                decoded.frames.size());
  if (check()) check()(peer.number, decoded.header, decoded.frames);
  Message message{decoded.header, {}};
  for (std::size_t i = 0; i < decoded.frames.size(); ++i) {
    const auto& [dtype, shape] = decoded.frames[i];
    Tensor frame = view(peer, record.frames[i], shape, dtype, release);
    traffic_.received += static_cast<std::int64_t>(frame.bytes());
    if (record.copy) {
      const Tensor copy = device_.tensor(shape, MemoryKind::communication, dtype);
      device_.write(copy, std::as_bytes(std::span(frame.data<std::uint8_t>(), frame.bytes())));
      frame = copy;
    }
    message.frames.push_back(std::move(frame));
  }
  return message;
}

/// The ledger counts a view as no bytes, because the sender counts its memory.
Tensor ShmChannel::view(const Peer& peer, const shm::Address& address, const Shape& shape,
                        DType dtype, const std::shared_ptr<void>& release) const {
  const std::size_t bytes = static_cast<std::size_t>(shape.count()) * size_of(dtype);
  if (address.bytes != bytes)
    throw Error("message: a frame has {} bytes, but the header says {}", address.bytes, bytes);
  if (bytes > static_cast<std::size_t>(std::max<std::int64_t>(0, options_.max_frame_bytes)))
    throw Error("message: a frame has {} bytes, but at most {} are allowed", bytes,
                options_.max_frame_bytes);
  if (bytes == 0) return device_.tensor(shape, MemoryKind::communication, dtype);
  if (address.process != peer.process || address.offset % size_of(dtype) != 0)
    throw Error("message: a frame at byte {} of a file of process {} is not the sender's",
                address.offset, address.process);
  std::shared_ptr<std::byte> first = memory_.find(address);
  std::byte* const data = first.get();
  const auto owner =
      device_.adopt(data, 0, MemoryKind::communication, [first = std::move(first), release] {});
  return {std::make_shared<Buffer>(data, bytes, MemoryKind::communication, SymmetricAddress{},
                                   [owner] {}),
          0, shape, dtype};
}

bool ShmChannel::is_over(Peer& peer) {
  // A peer puts its last message before it marks itself as gone. So test the mark first, then the
  // ring.
  if (!peer.watch.gone(*peer.end)) return false;
  return peer.queue_in ? peer.queue_in->empty() : peer.broken || peer.in->empty();
}

}  // namespace ringside::ps
