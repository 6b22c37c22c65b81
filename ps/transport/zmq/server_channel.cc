#include <algorithm>
#include <charconv>
#include <map>
#include <string>
#include <utility>

#include "core/base/error.h"
#include "ps/protocol/inbox.h"
#include "ps/transport/zmq/channel.h"
#include "ps/transport/zmq/channels.h"
#include "ps/transport/zmq/keys.h"
#include "ps/transport/zmq/listener.h"
#include "ps/transport/zmq/unproven.h"

namespace ringside::ps {
namespace {

/// A server that awaits workers looks at what strangers take from it when somebody comes, and at
/// least as often as this, since nobody says who has gone.
constexpr double look_s = 0.01;

class ServerChannel : public ZmqChannel {
 public:
  ServerChannel(Device& device, const std::shared_ptr<ZmqContext>& zmq_context, const Run& run,
                int workers, int server, const TransportOptions& options)
      : ZmqChannel(device, zmq_context, run, options),
        workers_(workers),
        server_(server),
        missing_(run.outside) {
    zmq::socket_t& inside = add_socket(zmq::socket_type::router, true).zmq;
    inside.set(zmq::sockopt::router_mandatory, true);
    inside.bind(local_endpoint(server));
    zmq::socket_t& outside = add_socket(zmq::socket_type::router, false).zmq;
    if (missing_ == 0) return;
    outside.set(zmq::sockopt::router_mandatory, true);
    outside.set(zmq::sockopt::handshake_ivl, static_cast<int>(options.handshake_s * 1e3));
    outside.set(zmq::sockopt::zap_domain, "ringside");
    Admission admission{.workers = workers, .secret = run.secret};
    if (!keyed(options)) {
      outside.set(zmq::sockopt::plain_server, true);
    } else {
      const Keyring keys(options.keys, options.drawn_keys);
      admission.keys = keys.members(workers, false);
      outside.set(zmq::sockopt::curve_server, true);
      outside.set(zmq::sockopt::curve_secretkey, keys.pair(server_key).secret_key);
    }
    zmq_context->admit(std::move(admission));
    listener_.emplace(options, server);
    if (options.transport == TransportKind::tcp)
      unproven_.emplace(zmq_context->context(), outside, *listener_);
    require_descriptors(fmt::format("server {}", server), missing_, scarce_share);
  }

  std::string endpoint() const { return listener_ ? listener_->endpoint() : ""; }

  ~ServerChannel() override { finish(); }
  ServerChannel(const ServerChannel&) = delete;
  ServerChannel& operator=(const ServerChannel&) = delete;

  void send(int worker, Message message) override {
    const auto peer = peers_.find(worker);
    if (peer == peers_.end()) throw Error("server {}: worker {} never connected", server_, worker);
    const Kind kind = message.header.kind;
    Socket& socket = sockets()[peer->second.socket];
    send_ready();
    if (const auto gone = gone_.find(worker); gone != gone_.end()) throw_gone(gone);
    if (has_to_wait(socket, worker, message)) {
      if (!has_room(worker) && !send_oldest(worker, zmq::send_flags::none))
        throw refused(worker, kind);
      stage(worker, std::move(message));
      return;
    }
    const bool sent =
        reach(worker, kind, [&] { return send_on(socket, peer->second.id, std::move(message)); });
    if (!sent) throw refused(worker, kind);
  }

  /// What a former process has sent, and ZeroMQ has still to pass on, is told by its number.
  std::string admit_again(int worker, std::int64_t process) override {
    expected_[worker] = process;
    gone_.erase(worker);
    drop(worker);
    if (peers_.erase(worker) > 0 && missing_++ == 0) open_again();
    return endpoint();
  }

  bool try_send(int worker, Message message) override {
    const auto peer = peers_.find(worker);
    if (peer == peers_.end()) return false;
    Socket& socket = sockets()[peer->second.socket];
    if (!has_to_wait(socket, worker, message))
      return send_if_taken(socket, peer->second.id, std::move(message));
    return try_stage(worker, std::move(message));
  }

  /// Accepts connections only from the first call on, and looks meanwhile at what they take: before
  /// that nobody would notice a stranger who takes all file descriptors.
  std::optional<Received> receive(double timeout_s) override {
    if (!gone_.empty()) throw_gone(gone_.begin());
    if (!listener_ || !listener_->open()) return ZmqChannel::receive(timeout_s);
    if (!std::exchange(accepts_, true)) {
      listener_->accept_for(sockets().back().zmq);
      watch({{nullptr, listener_->file(), ZMQ_POLLIN, 0}});
    }
    const double deadline = device().clock().now() + timeout_s;
    for (double left = timeout_s;; left = deadline - device().clock().now()) {
      if (unproven_) unproven_->look();
      listener_->spare_descriptors();
      auto received = ZmqChannel::receive(std::min(left, look_s));
      if (received || left <= 0) return received;
    }
  }

 private:
  /// How a worker is reached.
  struct Peer {
    std::size_t socket;  // index
    std::string id;      // the name that the socket gave to the connection
  };

  Error refused(int worker, Kind kind) const {
    return Error(
        "server {}: worker {} did not accept the reply to its {} within {} s; raise "
        "train.timeout_s if the worker really computes for that long",
        server_, worker, name_of(kind), options().timeout_s);
  }

  /// Returns what `send` returns; throws PeerGone if `send` finds that the worker is gone.
  template <class Send>
  bool reach(int worker, Kind kind, Send send) const {
    try {
      return send();
    } catch (const zmq::error_t& error) {
      if (error.num() != EHOSTUNREACH) throw;
      throw PeerGone(worker,
                     fmt::format("server {}: worker {} has ended before it received the reply to "
                                 "its {}",
                                 server_, worker, name_of(kind)));
    }
  }

  /// Does not throw for a worker that is gone, because the call may be about another worker: the
  /// message counts as sent, and the next receive() tells.
  bool deliver(int worker, const Parts& parts, zmq::send_flags flags) override {
    const Peer& peer = peers_.at(worker);
    try {
      return reach(worker, parts.kind,
                   [&] { return send_parts(sockets()[peer.socket], peer.id, parts, flags); });
    } catch (const PeerGone& error) {
      gone_.try_emplace(worker, error);
      return true;
    }
  }

  void throw_gone(std::map<int, PeerGone>::iterator found) {
    const PeerGone error = std::move(gone_.extract(found).mapped());
    drop(error.peer);
    throw error;
  }

  std::optional<Received> receive_now() override {
    return inbox_.next(static_cast<int>(sockets().size()),
                       [this](int index) { return take_from(static_cast<std::size_t>(index)); });
  }

  /// The next message of the socket that is not refused.
  std::optional<Received> take_from(std::size_t index) {
    Socket& socket = sockets()[index];
    for (auto parts = receive_parts(socket); !parts.empty(); parts = receive_parts(socket)) {
      const std::string id = parts[0].to_string();
      std::optional<int> newcomer;  // whose first message this is
      try {
        if (parts.size() < 2) throw Error("the message has no header");
        const int worker = sender(socket, id, parts[1]);
        const auto known = peers_.find(worker);
        if (known != peers_.end() && (known->second.socket != index || known->second.id != id))
          throw Error("worker {} is connected already", worker);
        if (known == peers_.end()) newcomer = worker;
        if (newcomer && unproven_ && !socket.inside) unproven_->proved(parts[1]);
        Message message = open(socket, worker, std::span(parts).subspan(1));
        if (newcomer && is_of_former_process(worker, message.header)) continue;
        if (newcomer) {
          if (!socket.inside) note_file(worker, zmq_msg_get(parts[1].handle(), ZMQ_SRCFD));
          meet(worker, {index, id});
        }
        return Received{worker, std::move(message)};
      } catch (const Unreadable& error) {
        reject(socket, id, error.what());
        if (newcomer) throw other_program(server_, *newcomer, error);
      } catch (const Error& error) {
        reject(socket, id, error.what());
      }
    }
    return {};
  }

  /// The worker who sent a message. What the sender itself says is believed only within the
  /// process; of others the authenticator says who they are.
  int sender(const Socket& socket, const std::string& id, const zmq::message_t& part) const {
    const char* known = socket.inside ? id.c_str() : zmq_msg_gets(part.handle(), rank_attribute);
    const std::string_view rank = known ? known : "";
    int worker = -1;
    std::from_chars(rank.data(), rank.data() + rank.size(), worker);
    if (worker < 0 || worker >= workers_) throw Error("the sender is no worker of this run");
    return worker;
  }

  bool is_of_former_process(int worker, const Header& first) const {
    const auto process = expected_.find(worker);
    return process != expected_.end() &&
           (first.kind != Kind::hello || first.step != process->second);
  }

  /// Workers come again, and strangers may, too.
  void open_again() {
    zmq::socket_t& outside = sockets().back().zmq;
    if (options().transport == TransportKind::tcp)
      unproven_.emplace(zmq_context().context(), outside, *listener_);
    listener_->reopen(outside);
    watch({{nullptr, listener_->file(), ZMQ_POLLIN, 0}});
  }

  void meet(int worker, Peer peer) {
    if (!sockets()[peer.socket].inside && --missing_ == 0) {
      listener_->close();
      unproven_.reset();
      watch({});
    }
    peers_[worker] = std::move(peer);
  }

  /// Tells a sender why it is refused, if the sender is still there.
  void reject(Socket& socket, const std::string& id, const std::string& cause) {
    Message message;
    message.header.kind = Kind::error;
    message.header.reply = true;
    message.header.text = cause;
    send_if_taken(socket, id, std::move(message));
  }

  int workers_, server_;
  int missing_;  // workers of other ranks that have not come yet
  std::optional<Listener> listener_;
  std::optional<UnprovenConnections> unproven_;  // until all workers have come
  bool accepts_ = false;
  std::map<int, std::int64_t> expected_;  // by worker: the number of the process that may come
  std::map<int, Peer> peers_;             // by worker
  std::map<int, PeerGone> gone_;  // by worker, who did not get what was staged; nobody knows yet
  Inbox inbox_;
};

}  // namespace

ServerEnd open_server(Device& device, std::shared_ptr<ZmqContext> zmq_context, const Run& run,
                      int workers, int server, const TransportOptions& options) {
  auto channel =
      std::make_unique<ServerChannel>(device, zmq_context, run, workers, server, options);
  std::string endpoint = channel->endpoint();
  return {std::move(channel), std::move(endpoint)};
}

}  // namespace ringside::ps
