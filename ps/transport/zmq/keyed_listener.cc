#include <sys/eventfd.h>
#include <unistd.h>

#include <atomic>
#include <charconv>
#include <chrono>
#include <deque>
#include <map>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "ps/transport/zmq/context.h"
#include "ps/transport/zmq/keyed_streams.h"
#include "ps/transport/zmq/keys.h"
#include "ps/transport/zmq/stream_bridge.h"
#include "ps/transport/zmq/unproven.h"

namespace ringside::ps {
namespace {

using Clock = std::chrono::steady_clock;

/// How long a connection may take to prove that it has a key.
constexpr auto handshake = std::chrono::seconds(5);
/// While newcomers can come, the carrier looks as often as this at what they take.
constexpr auto look = std::chrono::milliseconds(10);
/// ZeroMQ says that a peer is gone only to whoever sends to it.
constexpr auto probe_every = std::chrono::milliseconds(100);
constexpr auto listener_linger = std::chrono::seconds(2);
/// How long bytes of a stream that has ended are kept for a process that does not read them.
constexpr auto kept = std::chrono::seconds(1);

TransportOptions options_of(const KeyedAddress& address) {
  return {.transport = TransportKind::tcp,
          .port = address.port,
          .port_option = address.port_option,
          .address = address.host,
          .keys = address.keys,
          .drawn_keys = address.drawn_keys};
}

int port_of(const std::string& endpoint) {
  int port = 0;
  std::from_chars(endpoint.data() + endpoint.rfind(':') + 1, endpoint.data() + endpoint.size(),
                  port);
  return port;
}

}  // namespace

/// The thread that carries the bytes of all streams.
class KeyedListener::Carrier {
 public:
  Carrier(const KeyedAddress& address, int workers, int most_streams)
      : workers_(workers),
        most_streams_(static_cast<std::size_t>(most_streams)),
        listener_(options_of(address), address.listener),
        port_(port_of(listener_.endpoint())),
        waits_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK | EFD_SEMAPHORE)),
        router_(zmq_context_.context(), zmq::socket_type::router) {
    const Keyring keys(address.keys, address.drawn_keys);
    zmq_context_.admit({.workers = workers, .keys = keys.members(workers, true)});
    namespace opt = zmq::sockopt;
    set_up(router_, address.unheard_s);
    router_.set(opt::router_mandatory, true);
    router_.set(opt::handshake_ivl, static_cast<int>(std::chrono::milliseconds(handshake).count()));
    router_.set(opt::zap_domain, "ringside");
    router_.set(opt::curve_server, true);
    router_.set(opt::curve_secretkey, keys.pair(server_key).secret_key);
    unproven_.emplace(zmq_context_.context(), router_, listener_);
    listener_.accept_for(router_);
    thread_ = std::jthread([this](const std::stop_token& stop) { run(stop); });
  }
  ~Carrier() {
    thread_.request_stop();
    thread_.join();
    unproven_.reset();
    router_.close();
  }
  Carrier(const Carrier&) = delete;
  Carrier& operator=(const Carrier&) = delete;

  int port() const { return port_; }
  int file() const { return waits_.get(); }
  int workers() const { return workers_; }
  std::size_t strangers() const { return strangers_; }
  void close() { closed_ = true; }

  std::optional<Stream> accept() {
    std::lock_guard lock(mutex_);
    if (newcomers_.empty()) return {};
    eventfd_t one = 0;
    eventfd_read(waits_.get(), &one);
    auto [socket, member, refused] = std::move(newcomers_.front());
    newcomers_.pop_front();
    if (!refused.empty()) throw Error("{}", refused);
    return Stream{socket.release(), member};
  }

 private:
  struct Peer {
    LocalEnd local;
    std::optional<std::string> unsent{};  // a message that ZeroMQ does not take yet
    bool ended = false;                   // of this process's side, which has said its last word
    /// The other side has ended: until then, bytes that have come wait for this process.
    std::optional<Clock::time_point> leaves{};
  };
  struct Newcomer {
    Descriptor socket;
    int member = -1;
    std::string refused{};  // why there is no stream
  };
  using Peers = std::map<std::string, Peer>;  // by ZeroMQ's name for the connection

  void run(const std::stop_token& stop) {
    try {
      carry_all(stop);
    } catch (const std::exception& error) {
      peers_.clear();  // this process sees that its streams have ended
      closed_ = true;
      listener_.close();
      announce(
          {.socket = Descriptor(), .refused = fmt::format("no stream goes on: {}", error.what())});
    }
  }

  void carry_all(const std::stop_token& stop) {
    Clock::time_point probed{};
    std::optional<Clock::time_point> end;
    for (;;) {
      if (stop.stop_requested()) {
        if (!end) end = Clock::now() + listener_linger;
        if (!busy() || Clock::now() > *end) return;
      }
      if (closed_ && listener_.open()) listener_.close();
      unproven_->look();
      strangers_ = unproven_->ended();
      poll(stop.stop_requested() || listener_.open() ? look : probe_every);
      receive();
      const bool probes = Clock::now() - probed > probe_every;
      if (probes) probed = Clock::now();
      std::vector<std::string> gone;
      for (auto& [id, peer] : peers_)
        if (!peer.leaves && !carry(id, peer, probes)) gone.push_back(id);
      if (!gone.empty()) receive();  // what came in the meantime came before the end
      for (const std::string& id : gone) leave(peers_.at(id));
      for (auto peer = peers_.begin(); peer != peers_.end();)
        peer = has_left(peer->second) ? peers_.erase(peer) : std::next(peer);
      try {
        listener_.spare_descriptors();
      } catch (const std::exception&) {  // only of sockets without a port
      }
    }
  }

  /// Whether bytes of this process may still have to leave.
  bool busy() const {
    for (const auto& [id, peer] : peers_)
      if (!peer.leaves && (!peer.ended || peer.unsent)) return true;
    return false;
  }

  void poll(std::chrono::milliseconds longest) {
    std::vector<zmq::pollitem_t> items = {{router_.handle(), 0, ZMQ_POLLIN, 0}, unproven_->item()};
    for (const auto& [id, peer] : peers_) {
      const auto item = peer.local.item(!peer.ended && !peer.unsent && !peer.leaves);
      if (item.events != 0) items.push_back(item);
    }
    try {
      zmq::poll(items, longest);
    } catch (const zmq::error_t& error) {
      if (error.num() != EINTR) throw;
    }
  }

  void receive() {
    zmq::message_t id, part;
    while (router_.recv(id, zmq::recv_flags::dontwait)) {
      bool whole = false;
      for (bool more = id.more(); more; more = part.more(), whole = true) {
        if (!router_.recv(part)) return;
        if (whole) part.rebuild();  // a message has one part; nothing of others is kept
      }
      if (whole && part.size() > 0) take(id.to_string(), part);
    }
  }

  void take(const std::string& id, const zmq::message_t& part) {
    const auto text = part.to_string_view();
    const auto peer = peers_.find(id);
    if (peer == peers_.end()) {
      // Other words are the rest of a stream that has ended.
      if (text.front() != begin_word) return;
      unproven_->proved(part);
      admit(id, part);
      return;
    }
    if (peer->second.leaves) return;
    if (text.front() == data_word && !peer->second.local.write(text.substr(1))) end(*peer);
    if (text.front() == end_word) end(*peer);
  }

  void admit(const std::string& id, const zmq::message_t& part) {
    const char* said = zmq_msg_gets(const_cast<zmq_msg_t*>(part.handle()), rank_attribute);
    const std::string_view number = said ? said : "";
    int member = -1;
    std::from_chars(number.data(), number.data() + number.size(), member);
    try {
      if (closed_ || member < 0 || member > workers_) throw Error("no newcomer is waited for");
      if (peers_.size() >= most_streams_) throw Error("there are {} streams", peers_.size());
      auto [own, others] = local_stream();
      peers_.emplace(id, Peer{LocalEnd(std::move(own))});
      announce({std::move(others), member});
    } catch (const Error& error) {
      send(id, std::string(1, end_word));
      if (!closed_)
        announce({.socket = Descriptor(),
                  .refused = fmt::format("a connection is refused: {}", error.what())});
    }
  }

  void announce(Newcomer newcomer) {
    {
      std::lock_guard lock(mutex_);
      newcomers_.push_back(std::move(newcomer));
    }
    eventfd_write(waits_.get(), 1);
  }

  /// The other side has ended: this process sees that its socket has.
  void end(Peers::value_type& peer) {
    send(peer.first, std::string(1, end_word));
    leave(peer.second);
  }
  static void leave(Peer& peer) {
    if (!peer.leaves) peer.leaves = Clock::now() + kept;
  }
  static bool has_left(Peer& peer) {
    if (!peer.leaves) return false;
    peer.local.flush();
    return peer.local.flushed() || Clock::now() > *peer.leaves;
  }

  /// Carries what this process has written. Returns false if the other side is gone.
  bool carry(const std::string& id, Peer& peer, bool probes) {
    peer.local.flush();
    for (;;) {
      if (!peer.unsent && !peer.ended) {
        peer.unsent = peer.local.read();
        peer.ended = peer.unsent && peer.unsent->front() == end_word;
      }
      if (!peer.unsent) break;
      const auto sent = send(id, *peer.unsent);
      if (!sent) return false;
      if (!*sent) return true;
      peer.unsent.reset();
    }
    return !probes || send(id, std::string(1, alive_word)).has_value();
  }

  /// Whether ZeroMQ takes the message; none if the other side is gone.
  std::optional<bool> send(const std::string& id, const std::string& message) {
    try {
      constexpr auto now = zmq::send_flags::dontwait;
      if (!router_.send(zmq::buffer(id), now | zmq::send_flags::sndmore)) return false;
      return router_.send(zmq::buffer(message), now).has_value();
    } catch (const zmq::error_t& error) {
      if (error.num() != EHOSTUNREACH) throw;
      return std::nullopt;
    }
  }

  int workers_;
  std::size_t most_streams_;
  Listener listener_;
  int port_;
  Descriptor waits_;  // counts newcomers
  ZmqContext zmq_context_;
  zmq::socket_t router_;
  std::optional<UnprovenConnections> unproven_;
  std::atomic<std::size_t> strangers_ = 0;
  std::mutex mutex_;
  std::deque<Newcomer> newcomers_;
  std::atomic<bool> closed_ = false;
  Peers peers_;
  std::jthread thread_;
};

KeyedListener::KeyedListener(const KeyedAddress& address, int workers, int most_streams)
    : carrier_(std::make_unique<Carrier>(address, workers, most_streams)) {}
KeyedListener::~KeyedListener() = default;
int KeyedListener::port() const { return carrier_->port(); }
int KeyedListener::file() const { return carrier_->file(); }
int KeyedListener::server_member() const { return carrier_->workers(); }
std::optional<KeyedListener::Stream> KeyedListener::accept() { return carrier_->accept(); }
std::size_t KeyedListener::strangers() const { return carrier_->strangers(); }
void KeyedListener::close() { carrier_->close(); }

}  // namespace ringside::ps
