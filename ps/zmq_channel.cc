#include "ps/zmq_channel.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <utility>

#include "core/base/error.h"
#include "ps/zmq_socket.h"

namespace ringside::ps {
namespace {

constexpr auto last_words = std::chrono::milliseconds(1000);

/// A message that stays within the process travels as what it is.
struct Parcel {
  Message message;
  /// ZeroMQ orders sender and receiver, but in no way that a race detector sees.
  std::atomic<bool> sealed = false;
};

}  // namespace

Hub::Hub() : context_(std::make_unique<Context>()) {}
Hub::~Hub() = default;

std::string local_endpoint(int server) {
  return fmt::format("{}//server-{}", inside_scheme, server);
}

std::string routing_id(std::uint64_t token, int worker) {
  return fmt::format("{:016x}.{}", token, worker);
}

std::optional<Received> ZmqChannel::receive(double timeout_s) {
  if (auto received = receive_now()) return received;
  if (timeout_s <= 0) return {};
  poll(timeout_s, nullptr);
  return receive_now();
}

Socket& ZmqChannel::add_socket(zmq::socket_type type, bool inside) {
  Socket& socket = sockets_.emplace_back(Socket{zmq::socket_t(hub_->context().zmq, type), inside});
  namespace opt = zmq::sockopt;
  socket.zmq.set(opt::linger, static_cast<int>(last_words.count()));
  socket.zmq.set(opt::sndhwm, high_water_mark);
  socket.zmq.set(opt::rcvhwm, high_water_mark);
  socket.zmq.set(opt::sndtimeo, static_cast<int>(options_.timeout_s * 1e3));
  // No heartbeats of ZeroMQ's: a socket whose queue is full when its peer goes aborts the process
  // at the next one (libzmq 4.3.4, !_io_error). Clients say that they are alive.
  socket.zmq.set(opt::maxmsgsize,
                 std::max<std::int64_t>(options_.max_frame_bytes, max_header_bytes));
  return socket;
}

void ZmqChannel::poll(double timeout_s, const Socket* sending) {
  std::vector<zmq::pollitem_t> items;
  for (Socket& socket : sockets_) {
    const int events = &socket == sending ? ZMQ_POLLIN | ZMQ_POLLOUT : ZMQ_POLLIN;
    items.push_back({socket.zmq.handle(), 0, static_cast<short>(events), 0});
  }
  try {
    zmq::poll(items, std::chrono::milliseconds(std::llround(std::ceil(timeout_s * 1e3))));
  } catch (const zmq::error_t& error) {
    if (error.num() != EINTR) throw;
  }
}

bool ZmqChannel::send_on(Socket& socket, const std::string& id, Message message,
                         zmq::send_flags flags) {
  if (!id.empty() && !socket.zmq.send(zmq::buffer(id), flags | zmq::send_flags::sndmore))
    return false;
  if (socket.inside) {
    auto parcel = std::make_unique<Parcel>();
    parcel->message = std::move(message);
    parcel->sealed.store(true, std::memory_order_release);
    Parcel* raw = parcel.release();
    zmq::message_t part(
        raw, sizeof(Parcel), [](void* data, void*) { delete static_cast<Parcel*>(data); }, nullptr);
    return socket.zmq.send(std::move(part), flags).has_value();
  }
  const std::vector<std::byte> header = encode(message);
  const auto more = [&](std::size_t sent) {
    return sent < message.frames.size() ? flags | zmq::send_flags::sndmore : flags;
  };
  if (!socket.zmq.send(zmq::buffer(header), more(0))) return false;
  traffic_.sent += static_cast<std::int64_t>(header.size());
  for (std::size_t i = 0; i < message.frames.size(); ++i) {
    const Tensor& frame = message.frames[i];
    traffic_.sent += static_cast<std::int64_t>(frame.bytes());
    auto* keep_alive = new Tensor(frame);
    zmq::message_t part(
        frame.data<std::uint8_t>(), frame.bytes(),
        [](void*, void* hint) { delete static_cast<Tensor*>(hint); }, keep_alive);
    if (!socket.zmq.send(std::move(part), more(i + 1))) return false;
  }
  return true;
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

Message ZmqChannel::open(const Socket& socket, std::span<zmq::message_t> parts) {
  if (socket.inside) {
    auto* parcel = static_cast<Parcel*>(parts[0].data());
    parcel->sealed.wait(false, std::memory_order_acquire);
    return std::move(parcel->message);
  }
  const Decoded decoded = decode({static_cast<const std::byte*>(parts[0].data()), parts[0].size()});
  traffic_.received += static_cast<std::int64_t>(parts[0].size());
  if (decoded.frames.size() != parts.size() - 1)
    throw Error("message: {} frames where its header tells of {}", parts.size() - 1,
                decoded.frames.size());
  Message message{decoded.header, {}};
  for (std::size_t i = 0; i < decoded.frames.size(); ++i)
    message.frames.push_back(adopt(std::move(parts[i + 1]), decoded.frames[i]));
  return message;
}

Tensor ZmqChannel::adopt(zmq::message_t part, const FrameShape& frame) {
  const std::size_t bytes = static_cast<std::size_t>(frame.shape.count()) * size_of(frame.dtype);
  if (part.size() != bytes)
    throw Error("message: a frame of {} bytes where its header tells of {}", part.size(), bytes);
  traffic_.received += static_cast<std::int64_t>(bytes);
  auto owner = std::make_shared<zmq::message_t>(std::move(part));
  auto* data = static_cast<std::byte*>(owner->data());
  if (reinterpret_cast<std::uintptr_t>(data) % size_of(frame.dtype) == 0)
    return {device_.adopt(data, bytes, MemoryKind::communication, [owner] {}), 0, frame.shape,
            frame.dtype};
  // Small frames lie anywhere in ZeroMQ's receive buffer.
  Tensor copy = device_.tensor(frame.shape, MemoryKind::communication, frame.dtype);
  device_.write(copy, {data, bytes});
  return copy;
}

}  // namespace ringside::ps
