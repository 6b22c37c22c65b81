#include "ps/transport/zmq/keyed_streams.h"

#include <sys/eventfd.h>
#include <sys/socket.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "ps/transport/zmq/context.h"
#include "ps/transport/zmq/keys.h"
#include "ps/transport/zmq/listener.h"
#include "ps/transport/zmq/socket_events.h"
#include "ps/transport/zmq/unproven.h"

namespace ringside::ps {
namespace {

namespace opt = zmq::sockopt;
using std::chrono::milliseconds;

/// Every message is one of these letters; bytes of the stream follow `data`. A stream begins with
/// `begin`, so that what is left of one that the listener has ended is not taken for another.
constexpr char begin_word = 'b', data_word = 'd', alive_word = 'a', end_word = 'e';
constexpr std::size_t most_bytes_a_message = 32 << 10;
/// While this process does not read so many bytes of a stream, nothing more is taken from ZeroMQ,
/// and other hosts soon cannot send.
constexpr std::size_t most_unread = 4 << 20;
/// The thread sleeps no longer, and a listener asks as often whether the other ends are there.
constexpr milliseconds nap{100};
/// While newcomers can come, the listener looks as often as this at what they take.
constexpr milliseconds look{10};
/// How long a connection may take to prove that it has a key.
constexpr milliseconds handshake{5000};
/// How long bytes of a stream that has ended are kept for a process that does not read them.
constexpr milliseconds kept{1000};
/// How long what was written may take to leave: to ZeroMQ, and then with it.
constexpr milliseconds linger{2000}, zmq_linger{1000};
/// The system's probes of a silent connection.
constexpr int silent_s = 5, probes = 3, probe_s = 3;
/// How often a connection may end before it is made: a listener that is about to end takes one.
constexpr int most_failures = 3;

/// Carries bytes between local stream sockets and the connections of a ZeroMQ socket: any number of
/// a ROUTER, by ZeroMQ's names for them, or the one of a DEALER, whose name is empty. For one
/// thread at a time.
class Bridge {
 protected:
  using Clock = std::chrono::steady_clock;

  Bridge(zmq::socket_type type, double unheard_s)
      : routes_(type == zmq::socket_type::router), zmq_(context_.context(), type) {
    if (routes_) zmq_.set(opt::router_mandatory, true);
    zmq_.set(opt::linger, static_cast<int>(zmq_linger.count()));
    // Twice as much: an encrypted message is a little longer.
    zmq_.set(opt::maxmsgsize, static_cast<std::int64_t>(2 * most_bytes_a_message));
    zmq_.set(opt::tcp_keepalive, 1);
    zmq_.set(opt::tcp_keepalive_idle, silent_s);
    zmq_.set(opt::tcp_keepalive_cnt, probes);
    zmq_.set(opt::tcp_keepalive_intvl, probe_s);
    zmq_.set(opt::tcp_maxrt, std::max(1, static_cast<int>(std::min(1e3 * unheard_s, 2e9))));
  }
  virtual ~Bridge() = default;
  Bridge(const Bridge&) = delete;
  Bridge& operator=(const Bridge&) = delete;

  struct Stream {
    Descriptor local;                     // the end of this thread
    std::optional<std::string> unsent{};  // a message that ZeroMQ does not take yet
    std::string unread{};                 // bytes that this process does not take yet
    /// The stream has ended: until then, bytes that have come wait for this process.
    std::optional<Clock::time_point> leaves{};

    void leave() {
      if (!leaves) leaves = Clock::now() + kept;
    }
    /// A message of what this process has written; none if that is nothing.
    std::optional<std::string> read() const {
      std::string message(1 + most_bytes_a_message, data_word);
      const ssize_t n = recv(local.get(), message.data() + 1, most_bytes_a_message, MSG_DONTWAIT);
      if (n < 0 && (errno == EAGAIN || errno == EINTR)) return {};
      message.resize(n > 0 ? 1 + static_cast<std::size_t>(n) : 1);
      if (n <= 0) message.front() = end_word;
      return message;
    }
    /// Hands over what waits, as far as this process takes it.
    void flush() {
      while (!unread.empty()) {
        const ssize_t n =
            ::send(local.get(), unread.data(), unread.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0 && errno == EAGAIN) return;
        // A process that has closed its end gets nothing more; read() notices.
        unread.erase(0, n < 0 ? unread.size() : static_cast<std::size_t>(n));
        if (leaves) leaves = Clock::now() + kept;
      }
    }
  };

  /// Begins a stream over a connection, and returns this process's end.
  Descriptor add(const std::string& id) {
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
      throw Error("cannot make a pair of sockets: {}", std::strerror(errno));
    streams_.emplace(id, Stream{Descriptor(ends[0])});
    return Descriptor(ends[1]);
  }

  /// Whether ZeroMQ takes a message; none if the other side is gone.
  std::optional<bool> send(const std::string& id, const std::string& message) try {
    constexpr auto now = zmq::send_flags::dontwait;
    if (routes_ && !zmq_.send(zmq::buffer(id), now | zmq::send_flags::sndmore)) return false;
    return zmq_.send(zmq::buffer(message), now).has_value();
  } catch (const zmq::error_t& error) {
    if (error.num() != EHOSTUNREACH) throw;
    return std::nullopt;
  }

  /// Carries until the stream of a DEALER has ended, or, after a request to stop, until what this
  /// process has written has left, for two seconds at most.
  void carry(const std::stop_token& stop) {
    Clock::time_point probed{};
    std::optional<Clock::time_point> last;
    for (milliseconds longest{0}; routes_ || !streams_.empty();) {
      if (stop.stop_requested()) {
        if (!last) last = Clock::now() + linger;
        const auto leaving = [](const auto& one) { return one.second.leaves.has_value(); };
        if (std::all_of(streams_.begin(), streams_.end(), leaving) || Clock::now() > *last) return;
      }
      wait(longest);
      longest = attend();
      // ZeroMQ says only to a ROUTER that sends to a peer that the peer is gone.
      const bool probe = routes_ && Clock::now() - probed > nap;
      if (probe) probed = Clock::now();
      for (auto& [id, stream] : streams_) {
        stream.flush();
        send_written(id, stream);
        if (probe && !send(id, {alive_word})) stream.leave();
      }
      receive();  // what has come meanwhile came before an end
      std::erase_if(streams_, [](const auto& one) {
        const auto& leaves = one.second.leaves;
        return leaves && (one.second.unread.empty() || Clock::now() > *leaves);
      });
    }
  }

  void wait(milliseconds longest) {
    std::vector<zmq::pollitem_t> items = {events()};
    if (!is_full()) items.push_back({zmq_.handle(), 0, ZMQ_POLLIN, 0});
    for (const auto& [id, stream] : streams_) {
      const int wanted = (stream.unsent || stream.leaves ? 0 : ZMQ_POLLIN) |
                         (stream.unread.empty() ? 0 : ZMQ_POLLOUT);
      // The system says of every file that its other end is closed, asked or not.
      if (wanted != 0)
        items.push_back({nullptr, stream.local.get(), static_cast<short>(wanted), 0});
    }
    try {
      zmq::poll(items, longest);
    } catch (const zmq::error_t& error) {
      if (error.num() != EINTR) throw;
    }
  }

  bool routes_;
  ZmqContext context_;
  zmq::socket_t zmq_;
  std::map<std::string, Stream> streams_;  // by connection

 private:
  /// What else ends a wait.
  virtual zmq::pollitem_t events() = 0;
  /// Called after each wait; returns how long the next may take.
  virtual milliseconds attend() = 0;
  /// A message wants to begin a stream over a connection that has none.
  virtual void begin(const std::string&, const zmq::message_t&) {}

  void send_written(const std::string& id, Stream& stream) {
    while (!stream.leaves) {
      if (!stream.unsent) stream.unsent = stream.read();
      if (!stream.unsent) return;
      const auto sent = send(id, *stream.unsent);
      if (sent && !*sent) return;
      if (!sent || stream.unsent->front() == end_word) stream.leave();
      stream.unsent.reset();
    }
  }

  bool is_full() const {
    return std::any_of(streams_.begin(), streams_.end(),
                       [](const auto& one) { return one.second.unread.size() > most_unread; });
  }

  void receive() {
    for (zmq::message_t id, part; !is_full();) {
      if (routes_ && !zmq_.recv(id, zmq::recv_flags::dontwait)) return;
      if (!zmq_.recv(part, zmq::recv_flags::dontwait)) return;
      const bool whole = !part.more() && part.size() > 0;
      while (part.more())  // a message has one part; nothing of others is kept
        if (!zmq_.recv(part)) return;
      if (whole) take(routes_ ? id.to_string() : "", part);
    }
  }

  void take(const std::string& id, const zmq::message_t& part) {
    const auto text = part.to_string_view();
    const auto found = streams_.find(id);
    if (found == streams_.end()) {
      // Other words are the rest of a stream that has ended.
      if (text.front() == begin_word) begin(id, part);
      return;
    }
    Stream& stream = found->second;
    if (text.front() == data_word) stream.unread += text.substr(1);
    if (text.front() == end_word) stream.leave();
    stream.flush();
  }
};

constexpr int stream_events = ZMQ_EVENT_DISCONNECTED | ZMQ_EVENT_HANDSHAKE_SUCCEEDED |
                              ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL |
                              ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL | ZMQ_EVENT_HANDSHAKE_FAILED_AUTH;

class KeyedLink final : public StreamLink, private Bridge {
 public:
  KeyedLink(const KeyedAddress& address, const std::string& name, double timeout_s)
      : Bridge(zmq::socket_type::dealer, address.unheard_s),
        events_(context_.context(), zmq_, stream_events) {
    // Not ZMQ_IMMEDIATE: with it, what has come is thrown away unread when the connection ends.
    zmq_.set(opt::handshake_ivl, 0);  // a listener may begin late to accept
    const Keyring keys(address.options.keys, address.options.drawn_keys);
    const KeyPair own = keys.pair(name);
    zmq_.set(opt::curve_publickey, own.public_key);
    zmq_.set(opt::curve_secretkey, own.secret_key);
    zmq_.set(opt::curve_serverkey, keys.public_key(server_key));
    const std::string where = fmt::format("{}:{}", address.options.address, address.options.port);
    zmq_.connect("tcp://" + where);
    wait_for_proof(address, name, where, timeout_s);
    own_end_ = add("");
    streams_.at("").unsent = std::string{begin_word};
    thread_ = std::jthread([this](const std::stop_token& stop) {
      carry(stop);
      events_.end();
      zmq_.close();
    });
  }

  int release_socket() override { return own_end_.release(); }

 private:
  void wait_for_proof(const KeyedAddress& address, const std::string& name,
                      const std::string& where, double timeout_s) {
    const std::string& folder = address.options.keys;
    int failures = 0;
    for (const auto end = Clock::now() + std::chrono::duration<double>(timeout_s);;) {
      while (const auto event = events_.next()) {
        if (event->kind == ZMQ_EVENT_HANDSHAKE_SUCCEEDED) return;
        if (event->kind == ZMQ_EVENT_HANDSHAKE_FAILED_AUTH)
          throw Error(
              "{} does not know the key {}/{}.public; copy the keys of one call of `ringside keys` "
              "to all hosts",
              where, folder, name);
        if (event->kind == ZMQ_EVENT_DISCONNECTED) continue;
        if (++failures == most_failures)
          throw Error(
              "{} ends the connection without a proof that it has the secret to {}/{}.public; were "
              "both sides given keys, of one call of `ringside keys`?",
              where, folder, server_key);
      }
      if (Clock::now() > end)
        throw Error("nobody at {} has proved within {} s to have the secret to {}/{}.public; {}",
                    where, timeout_s, folder, server_key, address.remedy);
      wait(nap);
    }
  }

  zmq::pollitem_t events() override { return events_.item(); }
  milliseconds attend() override {
    while (const auto event = events_.next())
      if (event->kind == ZMQ_EVENT_DISCONNECTED)
        for (auto& [id, stream] : streams_) stream.leave();
    return nap;
  }

  SocketEvents events_;
  std::jthread thread_;
  Descriptor own_end_;  // closed before the thread is asked to stop
};

class KeyedListener final : public StreamListener, private Bridge {
 public:
  KeyedListener(const KeyedAddress& address, int workers, int most_streams)
      : Bridge(zmq::socket_type::router, address.unheard_s),
        workers_(workers),
        most_streams_(static_cast<std::size_t>(most_streams)),
        listener_(address.options, address.listener),
        waits_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK | EFD_SEMAPHORE)) {
    const Keyring keys(address.options.keys, address.options.drawn_keys);
    context_.admit({.workers = workers, .keys = keys.members(workers, true)});
    zmq_.set(opt::handshake_ivl, static_cast<int>(handshake.count()));
    zmq_.set(opt::zap_domain, "ringside");
    zmq_.set(opt::curve_server, true);
    zmq_.set(opt::curve_secretkey, keys.pair(server_key).secret_key);
    unproven_.emplace(context_.context(), zmq_, listener_);
    listener_.accept_for(zmq_);
    thread_ = std::jthread([this](const std::stop_token& stop) { run(stop); });
  }

  int port() const override { return listener_.port(); }
  int file() const override { return waits_.get(); }
  std::size_t strangers() const override { return strangers_; }
  void close() override { closed_ = true; }

  std::optional<AcceptedStream> accept() override {
    std::lock_guard lock(mutex_);
    if (newcomers_.empty()) return {};
    eventfd_t one = 0;
    eventfd_read(waits_.get(), &one);
    auto [socket, holder, refused] = std::move(newcomers_.front());
    newcomers_.pop_front();
    if (!refused.empty()) throw Error("{}", refused);
    return AcceptedStream{socket.release(), holder};
  }

 private:
  struct Newcomer {
    Descriptor socket{};
    KeyHolder holder{};
    std::string refused{};  // why there is no stream
  };

  void run(const std::stop_token& stop) {
    try {
      carry(stop);
    } catch (const std::exception& error) {
      streams_.clear();  // this process sees that they have ended
      closed_ = true;
      listener_.close();
      announce({.refused = fmt::format("no stream goes on: {}", error.what())});
    }
  }

  zmq::pollitem_t events() override { return unproven_->item(); }
  milliseconds attend() override {
    if (closed_ && listener_.open()) listener_.close();
    unproven_->look();
    strangers_ = unproven_->ended();
    listener_.spare_descriptors();
    return listener_.open() ? look : nap;
  }

  void begin(const std::string& id, const zmq::message_t& part) override {
    unproven_->proved(part);
    const char* said = zmq_msg_gets(const_cast<zmq_msg_t*>(part.handle()), rank_attribute);
    const std::string_view number = said ? said : "";
    int member = -1;
    std::from_chars(number.data(), number.data() + number.size(), member);
    try {
      if (closed_ || member < 0 || member > workers_) throw Error("no newcomer is waited for");
      if (streams_.size() >= most_streams_) throw Error("there are {} streams", streams_.size());
      const bool server = member == workers_;
      announce({.socket = add(id), .holder = {server, server ? -1 : member}});
    } catch (const Error& error) {
      send(id, {end_word});
      if (!closed_) announce({.refused = fmt::format("a connection is refused: {}", error.what())});
    }
  }

  void announce(Newcomer newcomer) {
    std::lock_guard lock(mutex_);
    newcomers_.push_back(std::move(newcomer));
    eventfd_write(waits_.get(), 1);
  }

  int workers_;
  std::size_t most_streams_;
  Listener listener_;
  Descriptor waits_;  // counts newcomers
  std::optional<UnprovenConnections> unproven_;
  std::atomic<std::size_t> strangers_ = 0;
  std::atomic<bool> closed_ = false;
  std::mutex mutex_;
  std::deque<Newcomer> newcomers_;
  std::jthread thread_;
};

}  // namespace

std::unique_ptr<StreamListener> listen_with_keys(const KeyedAddress& address, int workers,
                                                 int most_streams) {
  return std::make_unique<KeyedListener>(address, workers, most_streams);
}

std::unique_ptr<StreamLink> connect_with_key(const KeyedAddress& address, const std::string& name,
                                             double timeout_s) {
  return std::make_unique<KeyedLink>(address, name, timeout_s);
}

}  // namespace ringside::ps
