#include <algorithm>
#include <deque>

#include "core/base/error.h"
#include "core/base/waiting_time.h"
#include "ps/wires/zmq/channel.h"
#include "ps/wires/zmq/ends.h"
#include "ps/wires/zmq/keys.h"

namespace ringside::ps {
namespace {

class WorkerChannel : public ZmqChannel {
 public:
  WorkerChannel(Device& device, std::shared_ptr<Hub> hub, const Run& run, int worker,
                const std::vector<std::string>& endpoints, const TransportOptions& options,
                Timeline& timeline)
      : ZmqChannel(device, std::move(hub), options), timeline_(timeline) {
    for (const std::string& endpoint : endpoints) {
      const bool inside = endpoint.starts_with(inside_scheme);
      Socket& socket = add_socket(zmq::socket_type::dealer, inside);
      if (inside)
        socket.zmq.set(zmq::sockopt::routing_id, std::to_string(worker));
      else
        introduce(socket.zmq, run, worker);
      socket.zmq.connect(endpoint);
    }
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

  void introduce(zmq::socket_t& socket, const Run& run, int worker) const {
    // A server may begin to accept connections long after it listens.
    socket.set(zmq::sockopt::handshake_ivl, 0);
    if (options().keys.empty()) {
      socket.set(zmq::sockopt::plain_username, std::to_string(worker));
      socket.set(zmq::sockopt::plain_password, run.secret);
      return;
    }
    const KeyPair own = read_key_pair(options().keys, worker_key(worker));
    socket.set(zmq::sockopt::curve_publickey, own.public_key);
    socket.set(zmq::sockopt::curve_secretkey, own.secret_key);
    socket.set(zmq::sockopt::curve_serverkey, read_public_key(options().keys, server_key));
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
      send_ready();
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
      return Received{static_cast<int>(index),
                      open(sockets()[index], static_cast<int>(index), parts)};
    }
    return {};
  }

  Timeline& timeline_;
  std::size_t next_ = 0;
  std::deque<Received> early_;  // messages that came while another was being sent
};

}  // namespace

std::unique_ptr<Channel> connect_worker(Device& device, std::shared_ptr<Hub> hub, const Run& run,
                                        int worker, const std::vector<std::string>& endpoints,
                                        const TransportOptions& options, Timeline& timeline) {
  return std::make_unique<WorkerChannel>(device, std::move(hub), run, worker, endpoints, options,
                                         timeline);
}

}  // namespace ringside::ps
