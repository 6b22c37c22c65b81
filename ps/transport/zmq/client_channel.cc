#include <algorithm>
#include <string>
#include <utility>

#include "core/base/error.h"
#include "core/base/waiting_time.h"
#include "ps/protocol/inbox.h"
#include "ps/protocol/transport.h"
#include "ps/transport/zmq/channel.h"
#include "ps/transport/zmq/channels.h"
#include "ps/transport/zmq/keys.h"
#include "ps/transport/zmq/listener.h"
#include "ps/transport/zmq/socket_events.h"

namespace ringside::ps {
namespace {

/// ZeroMQ connects in the background and tries again and again whatever the server says, so a
/// worker whom the server refuses would wait for its whole deadline. This object listens to what
/// ZeroMQ says about a socket's handshake. For one thread, the socket's.
class Handshake {
 public:
  /// Call this before the socket connects to the endpoint. `options` outlives this object.
  Handshake(zmq::context_t& context, zmq::socket_t& socket, int worker, int server,
            std::string endpoint, const TransportOptions& options);

  /// For polls: readable when look() has something to see.
  zmq::pollitem_t item() { return events_.item(); }
  int server() const { return server_; }
  /// The file of the latest connection; -1: there has been none.
  int file() const { return file_; }
  /// Returns whether the server has admitted the worker; false while that is open. Does not block.
  /// Throws Error that names the server's address and what to do if the server refuses the worker.
  bool look();

 private:
  Error refused(const std::string& cause, const std::string& advice) const;
  void fail(const SocketEvent& event);

  SocketEvents events_;
  int worker_, server_;
  std::string endpoint_;
  const TransportOptions& options_;
  int file_ = -1;
  int ends_ = 0;  // handshakes that the server has ended without a word
};

constexpr int handshake_events =
    ZMQ_EVENT_CONNECTED | ZMQ_EVENT_HANDSHAKE_SUCCEEDED | ZMQ_EVENT_HANDSHAKE_FAILED_AUTH |
    ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL | ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL;
/// A server that has no keys, or another key than the worker believes, cannot read what the worker
/// says, and may end the connection without a word. A connection may break for other reasons, so a
/// few are forgiven; ZeroMQ connects again after a tenth of a second.
constexpr int forgiven = 5;

Handshake::Handshake(zmq::context_t& context, zmq::socket_t& socket, int worker, int server,
                     std::string endpoint, const TransportOptions& options)
    : events_(context, socket, handshake_events),
      worker_(worker),
      server_(server),
      endpoint_(std::move(endpoint)),
      options_(options) {}

bool Handshake::look() {
  while (const auto event = events_.next()) {
    if (event->kind == ZMQ_EVENT_CONNECTED) {
      file_ = static_cast<int>(event->value);
      continue;
    }
    if (event->kind == ZMQ_EVENT_HANDSHAKE_SUCCEEDED) {
      events_.end();
      return true;
    }
    fail(*event);
  }
  return false;
}

void Handshake::fail(const SocketEvent& event) {
  const bool keys = keyed(options_);
  const std::string own = fmt::format("{}/{}.public", options_.keys, worker_key(worker_));
  if (event.kind == ZMQ_EVENT_HANDSHAKE_FAILED_AUTH && keys)
    throw refused(fmt::format("does not know the key {}", own),
                  "give servers and workers the files of the same call of `ringside keys`");
  if (event.kind == ZMQ_EVENT_HANDSHAKE_FAILED_AUTH)
    throw refused("does not know the secret of this run",
                  fmt::format("another run's server may listen there; set {} to another port",
                              options_.port_option));
  if (event.kind == ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL)
    throw refused(
        fmt::format("speaks another protocol (ZeroMQ's error {:#x})", event.value),
        fmt::format("the worker has {}: let servers and workers all have keys, or none, and look "
                    "at who listens on this port",
                    keys ? "keys" : "no keys"));
  if (keys && ++ends_ > forgiven)
    throw refused(
        fmt::format("has ended {} handshakes, as a server does that has no keys, or not the key "
                    "{}/{}.public",
                    ends_, options_.keys, server_key),
        "give servers and workers the files of the same call of `ringside keys`");
}

Error Handshake::refused(const std::string& cause, const std::string& advice) const {
  return Error("server {} at {} refused worker {}: the server {}; {}", server_, endpoint_, worker_,
               cause, advice);
}

class WorkerChannel : public ZmqChannel {
 public:
  WorkerChannel(Device& device, std::shared_ptr<ZmqContext> zmq_context, const Run& run, int worker,
                const std::vector<std::string>& endpoints, const TransportOptions& options,
                Timeline& timeline)
      : ZmqChannel(device, std::move(zmq_context), run, options), timeline_(timeline) {
    constexpr int of_a_server = 3;  // the connection, what wakes its socket, and its handshake
    require_descriptors(fmt::format("worker {}", worker), of_a_server * std::ssize(endpoints), 1);
    for (std::size_t server = 0; server < endpoints.size(); ++server) {
      const std::string& endpoint = endpoints[server];
      const bool inside = endpoint.starts_with(inside_scheme);
      Socket& socket = add_socket(zmq::socket_type::dealer, inside);
      if (inside)
        socket.zmq.set(zmq::sockopt::routing_id, std::to_string(worker));
      else
        introduce(socket.zmq, run, worker, static_cast<int>(server), endpoint);
      socket.zmq.connect(endpoint);
    }
    watch_handshakes();
  }

  ~WorkerChannel() override { finish(); }
  WorkerChannel(const WorkerChannel&) = delete;
  WorkerChannel& operator=(const WorkerChannel&) = delete;

  void send(int server, Message message) override {
    const Kind kind = message.header.kind;
    Socket& socket = sockets()[static_cast<std::size_t>(server)];
    send_ready();
    if (has_to_wait(socket, server, message)) {
      if (!has_room(server)) wait_until_there_is_room(socket, server, kind);
      stage(server, std::move(message));
      return;
    }
    if (!takes(socket)) {
      const auto span = blocked_in_send(server, kind);
      wait_until(socket, server, kind, [&] { return takes(socket); });
    }
    if (!send_on(socket, {}, std::move(message))) throw refused(server, kind);
  }

  std::optional<Received> receive(double timeout_s) override {
    if (handshakes_.empty()) return ZmqChannel::receive(timeout_s);
    const double deadline = device().clock().now() + timeout_s;
    while (true) {
      const double left = deadline - device().clock().now();
      auto received = ZmqChannel::receive(std::max(0.0, left));
      look_at_handshakes();
      if (received || left <= 0) return received;
    }
  }

  bool try_send(int server, Message message) override {
    Socket& socket = sockets()[static_cast<std::size_t>(server)];
    if (!has_to_wait(socket, server, message)) return send_if_taken(socket, {}, std::move(message));
    return takes(socket) && try_stage(server, std::move(message));
  }

 private:
  Error refused(int server, Kind kind) const {
    return Error(
        "server {} did not accept a {} message within {} s; raise train.timeout_s if the server "
        "is really busy for that long",
        server, name_of(kind), options().timeout_s);
  }

  void introduce(zmq::socket_t& socket, const Run& run, int worker, int server,
                 const std::string& endpoint) {
    handshakes_.push_back(std::make_unique<Handshake>(zmq_context().context(), socket, worker,
                                                      server, endpoint, options()));
    // A server may begin to accept connections long after it listens.
    socket.set(zmq::sockopt::handshake_ivl, 0);
    if (!keyed(options())) {
      socket.set(zmq::sockopt::plain_username, std::to_string(worker));
      socket.set(zmq::sockopt::plain_password, run.secret);
      return;
    }
    const Keyring keys(options().keys, options().drawn_keys);
    const KeyPair own = keys.pair(worker_key(worker));
    socket.set(zmq::sockopt::curve_publickey, own.public_key);
    socket.set(zmq::sockopt::curve_secretkey, own.secret_key);
    socket.set(zmq::sockopt::curve_serverkey, keys.public_key(server_key));
  }

  /// Throws Error for a server that refuses this worker.
  void look_at_handshakes() {
    const auto done = std::erase_if(handshakes_, [this](const auto& handshake) {
      const bool admitted = handshake->look();
      if (admitted) note_file(handshake->server(), handshake->file());
      return admitted;
    });
    if (done > 0) watch_handshakes();
  }

  void watch_handshakes() {
    std::vector<zmq::pollitem_t> items;
    for (const auto& handshake : handshakes_) items.push_back(handshake->item());
    watch(std::move(items));
  }

  static bool takes(Socket& socket) {
    return (socket.zmq.get(zmq::sockopt::events) & ZMQ_POLLOUT) != 0;
  }

  Timeline::Scope blocked_in_send(int server, Kind kind) {
    return timeline_.scope(Activity::exposed,
                           fmt::format("send {} to server {}", name_of(kind), server));
  }

  void wait_until_there_is_room(Socket& socket, int server, Kind kind) {
    const auto span = blocked_in_send(server, kind);
    if (!send_oldest(server, zmq::send_flags::dontwait))
      wait_until(socket, server, kind, [&] { return has_room(server); });
  }

  bool deliver(int server, const Parts& parts, zmq::send_flags flags) override {
    return send_parts(sockets()[static_cast<std::size_t>(server)], {}, parts, flags);
  }

  /// Receives messages while it waits. A server that takes no message may have sent an error that
  /// says why, or may itself be waiting until this worker receives.
  template <class Done>
  void wait_until(Socket& socket, int server, Kind kind, Done done) {
    const Clock& clock = device().clock();
    const double nap = std::min(1.0, options().timeout_s / 8);
    WaitingTime waited(clock.now(), nap);
    while (!done()) {
      if (waited.seconds(clock.now()) > options().timeout_s) throw refused(server, kind);
      poll(nap, &socket);
      if (!handshakes_.empty()) look_at_handshakes();
      send_ready();
      inbox_.keep_all(peers(), [this](int peer) { return take_from(peer); });
    }
  }

  std::optional<Received> receive_now() override {
    return inbox_.next(peers(), [this](int server) { return take_from(server); });
  }

  std::optional<Received> take_from(int server) {
    Socket& socket = sockets()[static_cast<std::size_t>(server)];
    auto parts = receive_parts(socket);
    if (parts.empty()) return {};
    return Received{server, open(socket, server, parts)};
  }

  int peers() { return static_cast<int>(sockets().size()); }

  Timeline& timeline_;
  std::vector<std::unique_ptr<Handshake>> handshakes_;  // with servers that have not admitted us
  Inbox inbox_;
};

}  // namespace

std::unique_ptr<Channel> connect_worker(Device& device, std::shared_ptr<ZmqContext> zmq_context,
                                        const Run& run, int worker,
                                        const std::vector<std::string>& endpoints,
                                        const TransportOptions& options, Timeline& timeline) {
  return std::make_unique<WorkerChannel>(device, std::move(zmq_context), run, worker, endpoints,
                                         options, timeline);
}

}  // namespace ringside::ps
