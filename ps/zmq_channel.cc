#include "ps/zmq_channel.h"

#include <algorithm>
#include <atomic>
#include <charconv>
#include <cmath>
#include <deque>
#include <map>
#include <random>
#include <utility>
#include <zmq.hpp>

#include "core/base/error.h"
#include "ps/archive.h"

namespace ringside::ps {

struct Hub::Context {
  zmq::context_t zmq;
};
Hub::Hub() : context_(std::make_unique<Context>()) {}
Hub::~Hub() = default;

namespace {

/// Messages under way to one peer before send() blocks; more than a client ever has unanswered.
constexpr int high_water_mark = 64;
constexpr auto last_words = std::chrono::milliseconds(1000);
constexpr std::string_view inside_scheme = "inproc:";

/// A message that stays within the process travels as what it is.
struct Parcel {
  Message message;
  /// ZeroMQ orders sender and receiver, but in no way that a race detector sees.
  std::atomic<bool> sealed = false;
};

struct Socket {
  zmq::socket_t zmq;
  bool inside = false;
};

/// What a worker's socket is known by: who does not know the token cannot take a worker's place.
std::string routing_id(std::uint64_t token, int worker) {
  return fmt::format("{:016x}.{}", token, worker);
}

std::optional<int> worker_of(std::string_view id, std::uint64_t token) {
  const std::string prefix = fmt::format("{:016x}.", token);
  if (!id.starts_with(prefix)) return {};
  id.remove_prefix(prefix.size());
  int worker = 0;
  const auto [end, error] = std::from_chars(id.data(), id.data() + id.size(), worker);
  if (error != std::errc{} || end != id.data() + id.size() || worker < 0) return {};
  return worker;
}

class ZmqChannel : public Channel {
 public:
  ZmqChannel(Device& device, std::shared_ptr<Hub> hub, const ZmqOptions& options)
      : device_(device), hub_(std::move(hub)), options_(options) {}

  std::optional<Received> receive(double timeout_s) override {
    if (auto received = receive_now()) return received;
    if (timeout_s <= 0) return {};
    poll(timeout_s, nullptr);
    return receive_now();
  }

  Traffic traffic() const override { return traffic_; }

 protected:
  Socket& add_socket(zmq::socket_type type, bool inside) {
    Socket& socket =
        sockets_.emplace_back(Socket{zmq::socket_t(hub_->context().zmq, type), inside});
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

  /// Blocks until something comes on any socket or `sending` takes something.
  void poll(double timeout_s, const Socket* sending) {
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

  /// False if the peer takes nothing within the deadline. `id` is empty on a worker's socket.
  bool send_on(Socket& socket, const std::string& id, Message message,
               zmq::send_flags flags = zmq::send_flags::none) {
    if (!id.empty() && !socket.zmq.send(zmq::buffer(id), flags | zmq::send_flags::sndmore))
      return false;
    if (socket.inside) {
      auto parcel = std::make_unique<Parcel>();
      parcel->message = std::move(message);
      parcel->sealed.store(true, std::memory_order_release);
      Parcel* raw = parcel.release();
      zmq::message_t part(
          raw, sizeof(Parcel), [](void* data, void*) { delete static_cast<Parcel*>(data); },
          nullptr);
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

  bool send_if_taken(Socket& socket, const std::string& id, Message message) {
    try {
      return send_on(socket, id, std::move(message), zmq::send_flags::dontwait);
    } catch (const zmq::error_t&) {
      return false;
    }
  }

  /// The parts of the next message of a socket; empty if there is none.
  static std::vector<zmq::message_t> receive_parts(Socket& socket) {
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

  /// Throws Error for parts that are no message.
  Message open(const Socket& socket, std::span<zmq::message_t> parts) {
    if (socket.inside) {
      auto* parcel = static_cast<Parcel*>(parts[0].data());
      parcel->sealed.wait(false, std::memory_order_acquire);
      return std::move(parcel->message);
    }
    const Decoded decoded =
        decode({static_cast<const std::byte*>(parts[0].data()), parts[0].size()});
    traffic_.received += static_cast<std::int64_t>(parts[0].size());
    if (decoded.frames.size() != parts.size() - 1)
      throw Error("message: {} frames where its header tells of {}", parts.size() - 1,
                  decoded.frames.size());
    Message message{decoded.header, {}};
    for (std::size_t i = 0; i < decoded.frames.size(); ++i)
      message.frames.push_back(adopt(std::move(parts[i + 1]), decoded.frames[i]));
    return message;
  }

  std::vector<Socket>& sockets() { return sockets_; }
  const ZmqOptions& options() const { return options_; }
  Device& device() const { return device_; }

 private:
  virtual std::optional<Received> receive_now() = 0;

  Tensor adopt(zmq::message_t part, const FrameShape& frame) {
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

  Device& device_;
  std::shared_ptr<Hub> hub_;  // outlives the sockets
  ZmqOptions options_;
  std::vector<Socket> sockets_;
  Traffic traffic_;
};

class ServerChannel : public ZmqChannel {
 public:
  ServerChannel(Device& device, std::shared_ptr<Hub> hub, std::uint64_t token, int server,
                const ZmqOptions& options)
      : ZmqChannel(device, std::move(hub), options), token_(token), server_(server) {
    zmq::socket_t& inside = add_socket(zmq::socket_type::router, true).zmq;
    inside.set(zmq::sockopt::router_mandatory, true);
    inside.bind(local_endpoint(server));
    zmq::socket_t& outside = add_socket(zmq::socket_type::router, false).zmq;
    outside.set(zmq::sockopt::router_mandatory, true);
    if (options.transport == "tcp")
      bind_tcp(outside);
    else
      bind_ipc(outside);
  }

  std::string endpoint() { return sockets().back().zmq.get(zmq::sockopt::last_endpoint); }

  void send(int worker, Message message) override {
    const auto peer = peers_.find(worker);
    if (peer == peers_.end()) throw Error("server {}: worker {} never came", server_, worker);
    const Kind kind = message.header.kind;
    bool sent = false;
    try {
      sent = send_on(sockets()[peer->second], routing_id(token_, worker), std::move(message));
    } catch (const zmq::error_t& error) {
      if (error.num() != EHOSTUNREACH) throw;
      throw Error("server {}: worker {} is gone; it had asked for {}", server_, worker,
                  name_of(kind));
    }
    if (!sent)
      throw Error(
          "server {}: worker {} took no {} reply for {} s; raise train.timeout_s if it really "
          "computes for so long",
          server_, worker, name_of(kind), options().timeout_s);
  }

  bool try_send(int worker, Message message) override {
    const auto peer = peers_.find(worker);
    return peer != peers_.end() &&
           send_if_taken(sockets()[peer->second], routing_id(token_, worker), std::move(message));
  }

 private:
  void bind_tcp(zmq::socket_t& socket) {
    const std::int64_t port = options().port == 0 ? 0 : options().port + server_;
    try {
      socket.bind(port == 0 ? "tcp://127.0.0.1:*" : fmt::format("tcp://127.0.0.1:{}", port));
    } catch (const zmq::error_t& error) {
      throw Error(
          "server {}: cannot listen on port {} of 127.0.0.1 ({}); set {} to another, or "
          "to 0 for any that is free",
          server_, port, error.what(), options().port_option);
    }
  }

  /// An abstract name: no file, and nobody's to steal.
  void bind_ipc(zmq::socket_t& socket) {
    std::random_device random;
    const std::uint64_t name = (std::uint64_t{random()} << 32) | random();
    socket.bind(fmt::format("ipc://@ringside-{:016x}", name));
  }

  std::optional<Received> receive_now() override {
    for (std::size_t i = 0; i < sockets().size(); ++i) {
      const std::size_t index = (next_ + i) % sockets().size();
      Socket& socket = sockets()[index];
      for (auto parts = receive_parts(socket); !parts.empty(); parts = receive_parts(socket)) {
        const std::string id = parts[0].to_string();
        try {
          const std::optional<int> worker = worker_of(id, token_);
          if (!worker) throw Error("the sender is no worker of this run");
          if (parts.size() < 2) throw Error("message: without a header");
          Message message = open(socket, std::span(parts).subspan(1));
          peers_[*worker] = index;
          next_ = index + 1;
          return Received{*worker, std::move(message)};
        } catch (const Error& error) {
          reject(socket, id, error.what());
        }
      }
    }
    return {};
  }

  /// Tells a sender why, if it is there to listen.
  void reject(Socket& socket, const std::string& id, const std::string& cause) {
    Message message;
    message.header.kind = Kind::error;
    message.header.reply = true;
    message.header.text = cause;
    send_if_taken(socket, id, std::move(message));
  }

  std::uint64_t token_;
  int server_;
  std::map<int, std::size_t> peers_;  // a worker's socket
  std::size_t next_ = 0;
};

class WorkerChannel : public ZmqChannel {
 public:
  WorkerChannel(Device& device, std::shared_ptr<Hub> hub, std::uint64_t token, int worker,
                const std::vector<std::string>& endpoints, const ZmqOptions& options,
                Timeline& timeline)
      : ZmqChannel(device, std::move(hub), options), timeline_(timeline) {
    for (const std::string& endpoint : endpoints) {
      Socket& socket = add_socket(zmq::socket_type::dealer, endpoint.starts_with(inside_scheme));
      socket.zmq.set(zmq::sockopt::routing_id, routing_id(token, worker));
      socket.zmq.connect(endpoint);
    }
  }

  void send(int server, Message message) override {
    const Kind kind = message.header.kind;
    Socket& socket = sockets()[static_cast<std::size_t>(server)];
    if (!takes(socket)) wait_until_it_takes(socket, server, kind);
    if (!send_on(socket, {}, std::move(message))) throw refused(server, kind);
  }

  bool try_send(int server, Message message) override {
    return send_if_taken(sockets()[static_cast<std::size_t>(server)], {}, std::move(message));
  }

 private:
  Error refused(int server, Kind kind) const {
    return Error(
        "server {} took no {} for {} s; raise train.timeout_s if it is really busy for so long",
        server, name_of(kind), options().timeout_s);
  }

  static bool takes(Socket& socket) {
    return (socket.zmq.get(zmq::sockopt::events) & ZMQ_POLLOUT) != 0;
  }

  /// A server that takes nothing may have said why, or may itself wait for this worker to read.
  void wait_until_it_takes(Socket& socket, int server, Kind kind) {
    const Clock& clock = device().clock();
    const double deadline = clock.now() + options().timeout_s;
    const auto span = timeline_.scope(Activity::exposed,
                                      fmt::format("send {} to server {}", name_of(kind), server));
    while (!takes(socket)) {
      if (clock.now() > deadline) throw refused(server, kind);
      poll(std::min(deadline - clock.now(), 1.0), &socket);
      while (auto received = receive_from_any()) {
        const Header& header = received->message.header;
        if (header.kind == Kind::error) throw Error("server {}: {}", received->peer, header.text);
        early_.push_back(std::move(*received));
      }
    }
  }

  std::optional<Received> receive_now() override {
    if (early_.empty()) return receive_from_any();
    Received first = std::move(early_.front());
    early_.pop_front();
    return first;
  }

  std::optional<Received> receive_from_any() {
    for (std::size_t i = 0; i < sockets().size(); ++i) {
      const std::size_t index = (next_ + i) % sockets().size();
      auto parts = receive_parts(sockets()[index]);
      if (parts.empty()) continue;
      next_ = index + 1;
      return Received{static_cast<int>(index), open(sockets()[index], parts)};
    }
    return {};
  }

  Timeline& timeline_;
  std::size_t next_ = 0;
  std::deque<Received> early_;  // came while something was being sent
};

}  // namespace

std::string local_endpoint(int server) {
  return fmt::format("{}//server-{}", inside_scheme, server);
}

ServerEnd open_server(Device& device, std::shared_ptr<Hub> hub, std::uint64_t token, int server,
                      const ZmqOptions& options) {
  auto channel = std::make_unique<ServerChannel>(device, std::move(hub), token, server, options);
  std::string endpoint = channel->endpoint();
  return {std::move(channel), std::move(endpoint)};
}

std::unique_ptr<Channel> connect_worker(Device& device, std::shared_ptr<Hub> hub,
                                        std::uint64_t token, int worker,
                                        const std::vector<std::string>& endpoints,
                                        const ZmqOptions& options, Timeline& timeline) {
  return std::make_unique<WorkerChannel>(device, std::move(hub), token, worker, endpoints, options,
                                         timeline);
}

}  // namespace ringside::ps
