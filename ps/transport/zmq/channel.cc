#include "ps/transport/zmq/channel.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <thread>
#include <utility>

#include "core/base/error.h"

namespace ringside::ps {
namespace {

constexpr auto channel_linger = std::chrono::milliseconds(1000);
/// By so much an encrypted message is longer (CURVE, ZeroMQ RFC 26), and ZeroMQ limits the length
/// of what comes.
constexpr std::int64_t encryption_bytes = 33;

/// The channel checks repeatedly whether copies are finished. The time from one check to the next
/// doubles, so that a message is delayed by no more than the time that its copy took.
constexpr double shortest_slice_s = 50e-6, longest_slice_s = 1e-3;

/// Waking a thread up takes tens of microseconds. So where every rank can have a core of its own,
/// who waits for a message looks for it for a moment before sleeping; yields leave the core to
/// ZeroMQ's threads.
constexpr double looking_s = 100e-6;

void sleep_for(double seconds) {
  std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
}

/// A message that stays within the process travels as an object, not as bytes.
struct Parcel {
  Message message;
  /// Shows race detectors that the sender writes before the receiver reads. ZeroMQ ensures this
  /// order, but not in a way that race detectors see.
  std::atomic<bool> sealed = false;
};

Parts pack(Message message) {
  std::vector<std::byte> header = encode(message);
  return {message.header.kind, std::move(header), std::move(message.frames)};
}

}  // namespace

ZmqChannel::ZmqChannel(Device& device, std::shared_ptr<ZmqContext> zmq_context, const Run& run,
                       const TransportOptions& options)
    : device_(device),
      zmq_context_(std::move(zmq_context)),
      options_(options),
      has_cores_(run.has_cores) {
  if (auto staging = device.staging()) staged_.emplace(std::move(staging));
}

std::optional<Received> ZmqChannel::receive(double timeout_s) {
  send_ready();
  if (auto received = receive_now()) return received;
  if (timeout_s <= 0) return {};
  poll(timeout_s, nullptr);
  return receive_now();
}

Socket& ZmqChannel::add_socket(zmq::socket_type type, bool inside) {
  Socket& socket =
      sockets_.emplace_back(Socket{zmq::socket_t(zmq_context_->context(), type), inside});
  namespace opt = zmq::sockopt;
  socket.zmq.set(opt::linger, static_cast<int>(channel_linger.count()));
  socket.zmq.set(opt::sndhwm, high_water_mark);
  socket.zmq.set(opt::rcvhwm, high_water_mark);
  socket.zmq.set(opt::sndtimeo, static_cast<int>(options_.timeout_s * 1e3));
  // ZeroMQ's heartbeats stay off: if a socket's queue is full when its peer goes, the next
  // heartbeat aborts the process (libzmq 4.3.4: the assertion !_io_error fails). Clients themselves
  // send messages which say that they are alive.
  socket.zmq.set(opt::maxmsgsize,
                 std::max<std::int64_t>(options_.max_frame_bytes, max_header_bytes) +
                     (keyed(options_) ? encryption_bytes : 0));
  return socket;
}

void ZmqChannel::poll(double timeout_s, const Socket* sending) {
  if (!staged_) {
    poll_sockets(timeout_s, sending);
    return;
  }
  const Clock& clock = device_.clock();
  const double deadline = clock.now() + timeout_s;
  double slice = shortest_slice_s;
  for (double left = timeout_s; left > 0; left = deadline - clock.now()) {
    double patience = staged_->empty() ? left : std::min(left, slice);
    if (patience < longest_slice_s) {  // shorter than ZeroMQ can wait
      sleep_for(patience);
      patience = 0;
    }
    if (poll_sockets(patience, sending)) return;
    send_ready();
    slice = std::min(2 * slice, longest_slice_s);
  }
}

/// Returns whether a socket is ready or a signal ended the wait.
bool ZmqChannel::poll_sockets(double timeout_s, const Socket* sending) {
  std::vector<zmq::pollitem_t> items;
  for (Socket& socket : sockets_) {
    const int events = &socket == sending ? ZMQ_POLLIN | ZMQ_POLLOUT : ZMQ_POLLIN;
    items.push_back({socket.zmq.handle(), 0, static_cast<short>(events), 0});
  }
  items.insert(items.end(), watched_.begin(), watched_.end());
  try {
    const Clock& clock = device_.clock();
    const double looks_until = clock.now() + std::min(timeout_s, looking_s);
    while (has_cores_ && clock.now() < looks_until) {
      if (zmq::poll(items, std::chrono::milliseconds(0)) > 0) return true;
      std::this_thread::yield();
    }
    const auto longest = std::chrono::milliseconds(std::llround(std::ceil(timeout_s * 1e3)));
    return zmq::poll(items, longest) > 0;
  } catch (const zmq::error_t& error) {
    if (error.num() != EINTR) throw;
    return true;
  }
}

bool ZmqChannel::send_on(Socket& socket, const std::string& id, Message message,
                         zmq::send_flags flags) {
  if (!socket.inside) {
    const Parts parts = pack(std::move(message));
    const bool sent = send_parts(socket, id, parts, flags);
    if (sent) count_sent(parts);
    return sent;
  }
  if (!id.empty() && !socket.zmq.send(zmq::buffer(id), flags | zmq::send_flags::sndmore))
    return false;
  auto parcel = std::make_unique<Parcel>();
  parcel->message = std::move(message);
  parcel->sealed.store(true, std::memory_order_release);
  Parcel* raw = parcel.release();
  zmq::message_t part(
      raw, sizeof(Parcel), [](void* data, void*) { delete static_cast<Parcel*>(data); }, nullptr);
  return socket.zmq.send(std::move(part), flags).has_value();
}

bool ZmqChannel::send_parts(Socket& socket, const std::string& id, const Parts& parts,
                            zmq::send_flags flags) {
  if (!id.empty() && !socket.zmq.send(zmq::buffer(id), flags | zmq::send_flags::sndmore))
    return false;
  const auto more = [&](std::size_t sent) {
    return sent < parts.frames.size() ? flags | zmq::send_flags::sndmore : flags;
  };
  if (!socket.zmq.send(zmq::buffer(parts.header), more(0))) return false;
  for (std::size_t i = 0; i < parts.frames.size(); ++i) {
    const Tensor& frame = parts.frames[i];
    auto* keep_alive = new Tensor(frame);
    zmq::message_t part(
        frame.data<std::uint8_t>(), frame.bytes(),
        [](void*, void* hint) { delete static_cast<Tensor*>(hint); }, keep_alive);
    if (!socket.zmq.send(std::move(part), more(i + 1))) return false;
  }
  return true;
}

void ZmqChannel::count_sent(const Parts& parts) {
  traffic_.sent += static_cast<std::int64_t>(parts.header.size());
  for (const Tensor& frame : parts.frames)
    traffic_.sent += static_cast<std::int64_t>(frame.bytes());
}

bool ZmqChannel::has_to_wait(const Socket& socket, int peer, const Message& message) const {
  return staged_ && !socket.inside && (!message.frames.empty() || staged_->waiting(peer) > 0);
}

bool ZmqChannel::has_room(int peer) const { return staged_->waiting(peer) < high_water_mark; }

/// Counts the bytes now, not when they leave, so that they count for the step in which the message
/// was sent (and, on a server, for the request that it answers).
void ZmqChannel::stage(int peer, Message message) {
  Parts parts = pack(std::move(message));
  count_sent(parts);
  staged_->add(peer, std::move(parts));
  send_ready();
}

bool ZmqChannel::try_stage(int peer, Message message) {
  if (!has_room(peer)) return false;
  try {
    stage(peer, std::move(message));
    return true;
  } catch (const std::exception&) {
    return false;
  }
}

void ZmqChannel::send_ready() {
  if (staged_)
    staged_->send_ready([this](int peer, const Parts& parts) {
      return deliver(peer, parts, zmq::send_flags::dontwait);
    });
}

bool ZmqChannel::send_oldest(int peer, zmq::send_flags flags) {
  return staged_->send_oldest(
      peer, [&](int to, const Parts& parts) { return deliver(to, parts, flags); });
}

void ZmqChannel::drop(int peer) {
  if (staged_) staged_->drop(peer);
}

void ZmqChannel::finish() {
  if (!staged_) return;
  const Clock& clock = device_.clock();
  const double deadline = clock.now() + std::chrono::duration<double>(channel_linger).count();
  for (double slice = shortest_slice_s;; slice = std::min(2 * slice, longest_slice_s)) {
    try {
      send_ready();
    } catch (const std::exception&) {  // the error is about one peer, whose messages are dropped
      continue;
    }
    if (staged_->empty() || clock.now() > deadline) return;
    sleep_for(slice);
  }
}

bool ZmqChannel::send_if_taken(Socket& socket, const std::string& id, Message message) {
  try {
    return send_on(socket, id, std::move(message), zmq::send_flags::dontwait);
  } catch (const zmq::error_t&) {
    return false;
  }
}

std::vector<zmq::message_t> ZmqChannel::receive_parts(Socket& socket) {
  std::vector<zmq::message_t> parts;
  try {
    do {
      zmq::message_t part;
      if (!socket.zmq.recv(part, zmq::recv_flags::dontwait)) return {};
      parts.push_back(std::move(part));
    } while (parts.back().more());
  } catch (const zmq::error_t& error) {
    if (error.num() != EINTR || !parts.empty()) throw;
  }
  return parts;
}

Message ZmqChannel::open(const Socket& socket, int peer, std::span<zmq::message_t> parts) {
  if (socket.inside) {
    auto* parcel = static_cast<Parcel*>(parts[0].data());
    parcel->sealed.wait(false, std::memory_order_acquire);
    return std::move(parcel->message);
  }
  const Decoded decoded = decode({static_cast<const std::byte*>(parts[0].data()), parts[0].size()});
  traffic_.received += static_cast<std::int64_t>(parts[0].size());
  if (decoded.frames.size() != parts.size() - 1)
    throw Error("message: it has {} frames, but its header says {}", parts.size() - 1,
                decoded.frames.size());
  if (check()) check()(peer, decoded.header, decoded.frames);
  Message message{decoded.header, {}};
  for (std::size_t i = 0; i < decoded.frames.size(); ++i)
    message.frames.push_back(adopt(std::move(parts[i + 1]), decoded.frames[i]));
  return message;
}

Tensor ZmqChannel::adopt(zmq::message_t part, const FrameShape& frame) {
  const std::size_t bytes = static_cast<std::size_t>(frame.shape.count()) * size_of(frame.dtype);
  if (part.size() != bytes)
    throw Error("message: a frame has {} bytes, but the header says {}", part.size(), bytes);
  traffic_.received += static_cast<std::int64_t>(bytes);
  auto owner = std::make_shared<zmq::message_t>(std::move(part));
  auto* data = static_cast<std::byte*>(owner->data());
  if (staged_ && bytes > 0)
    return staged_->in({device_.adopt(data, bytes, MemoryKind::communication, [owner] {}), 0,
                        frame.shape, frame.dtype});
  if (!staged_ && reinterpret_cast<std::uintptr_t>(data) % size_of(frame.dtype) == 0)
    return {device_.adopt(data, bytes, MemoryKind::communication, [owner] {}), 0, frame.shape,
            frame.dtype};
  // ZeroMQ puts small frames at any address of its receive buffer, so the tensor needs a copy.
  Tensor copy = device_.tensor(frame.shape, MemoryKind::communication, frame.dtype);
  device_.write(copy, {data, bytes});
  return copy;
}

}  // namespace ringside::ps
