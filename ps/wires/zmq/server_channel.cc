#include <charconv>
#include <map>
#include <random>

#include "core/base/error.h"
#include "ps/wires/zmq/channel.h"
#include "ps/wires/zmq/ends.h"

namespace ringside::ps {
namespace {

std::optional<int> worker_of(std::string_view id, std::uint64_t token) {
  const std::string prefix = fmt::format("{:016x}.", token);
  if (!id.starts_with(prefix)) return {};
  id.remove_prefix(prefix.size());
  int worker = 0;
  const auto [end, error] = std::from_chars(id.data(), id.data() + id.size(), worker);
  if (error != std::errc{} || end != id.data() + id.size() || worker < 0) return {};
  return worker;
}

class ServerChannel : public ZmqChannel {
 public:
  ServerChannel(Device& device, std::shared_ptr<Hub> hub, std::uint64_t token, int server,
                const TransportOptions& options)
      : ZmqChannel(device, std::move(hub), options), token_(token), server_(server) {
    zmq::socket_t& inside = add_socket(zmq::socket_type::router, true).zmq;
    inside.set(zmq::sockopt::router_mandatory, true);
    inside.bind(local_endpoint(server));
    zmq::socket_t& outside = add_socket(zmq::socket_type::router, false).zmq;
    outside.set(zmq::sockopt::router_mandatory, true);
    if (options.transport == TransportKind::tcp)
      bind_tcp(outside);
    else
      bind_ipc(outside);
  }

  std::string endpoint() { return sockets().back().zmq.get(zmq::sockopt::last_endpoint); }

  ~ServerChannel() override { finish(); }
  ServerChannel(const ServerChannel&) = delete;
  ServerChannel& operator=(const ServerChannel&) = delete;

  void send(int worker, Message message) override {
    const auto peer = peers_.find(worker);
    if (peer == peers_.end()) throw Error("server {}: worker {} never connected", server_, worker);
    const Kind kind = message.header.kind;
    Socket& socket = sockets()[peer->second];
    send_ready();
    if (has_to_wait(socket, worker, message)) {
      if (!has_room(worker) && !send_oldest(worker, zmq::send_flags::none))
        throw refused(worker, kind);
      stage(worker, std::move(message));
      return;
    }
    const bool sent = reach(worker, kind, [&] {
      return send_on(socket, routing_id(token_, worker), std::move(message));
    });
    if (!sent) throw refused(worker, kind);
  }

  bool try_send(int worker, Message message) override {
    const auto peer = peers_.find(worker);
    if (peer == peers_.end()) return false;
    Socket& socket = sockets()[peer->second];
    if (!has_to_wait(socket, worker, message))
      return send_if_taken(socket, routing_id(token_, worker), std::move(message));
    return try_stage(worker, std::move(message));
  }

 private:
  Error refused(int worker, Kind kind) const {
    return Error(
        "server {}: worker {} did not accept the reply to its {} within {} s; raise "
        "train.timeout_s if the worker really computes for that long",
        server_, worker, name_of(kind), options().timeout_s);
  }

  /// Returns what `send` returns; throws Error if `send` finds that the worker is gone.
  template <class Send>
  bool reach(int worker, Kind kind, Send send) const {
    try {
      return send();
    } catch (const zmq::error_t& error) {
      if (error.num() != EHOSTUNREACH) throw;
      throw Error("server {}: worker {} has ended before it received the reply to its {}", server_,
                  worker, name_of(kind));
    }
  }

  bool deliver(int worker, const Parts& parts, zmq::send_flags flags) override {
    return reach(worker, parts.kind, [&] {
      return send_parts(sockets()[peers_.at(worker)], routing_id(token_, worker), parts, flags);
    });
  }

  void bind_tcp(zmq::socket_t& socket) {
    const std::int64_t port = options().port == 0 ? 0 : options().port + server_;
    try {
      socket.bind(port == 0 ? "tcp://127.0.0.1:*" : fmt::format("tcp://127.0.0.1:{}", port));
    } catch (const zmq::error_t& error) {
      throw Error(
          "server {}: cannot listen on port {} of 127.0.0.1 ({}); set {} to another port, "
          "or to 0 for any free port",
          server_, port, error.what(), options().port_option);
    }
  }

  /// Binds the socket to an abstract name, which leaves no file and which nobody can take over.
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
          if (parts.size() < 2) throw Error("the message has no header");
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

  /// Tells a sender why it is refused, if the sender is still there.
  void reject(Socket& socket, const std::string& id, const std::string& cause) {
    Message message;
    message.header.kind = Kind::error;
    message.header.reply = true;
    message.header.text = cause;
    send_if_taken(socket, id, std::move(message));
  }

  std::uint64_t token_;
  int server_;
  std::map<int, std::size_t> peers_;  // by worker: index of its socket
  std::size_t next_ = 0;
};

}  // namespace

ServerEnd open_server(Device& device, std::shared_ptr<Hub> hub, std::uint64_t token, int server,
                      const TransportOptions& options) {
  auto channel = std::make_unique<ServerChannel>(device, std::move(hub), token, server, options);
  std::string endpoint = channel->endpoint();
  return {std::move(channel), std::move(endpoint)};
}

}  // namespace ringside::ps
