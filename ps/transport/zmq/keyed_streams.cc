#include "ps/transport/zmq/keyed_streams.h"

#include <sys/eventfd.h>

#include <atomic>
#include <charconv>
#include <chrono>
#include <deque>
#include <mutex>
#include <thread>
#include <utility>

#include "core/base/error.h"
#include "ps/transport/zmq/keys.h"
#include "ps/transport/zmq/listener.h"
#include "ps/transport/zmq/socket_events.h"
#include "ps/transport/zmq/stream_bridge.h"
#include "ps/transport/zmq/unproven.h"

namespace ringside::ps {
namespace {

namespace opt = zmq::sockopt;
using std::chrono::milliseconds;

/// While newcomers can come, a listener looks as often as this at what they take.
constexpr milliseconds look{10};
/// How long a connection may take to prove that it has a key.
constexpr milliseconds handshake{5000};
/// How often a connection may end before it is made: a listener that is about to end takes one.
constexpr int most_failures = 3;

constexpr int stream_events = ZMQ_EVENT_DISCONNECTED | ZMQ_EVENT_HANDSHAKE_SUCCEEDED |
                              ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL |
                              ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL | ZMQ_EVENT_HANDSHAKE_FAILED_AUTH;

class KeyedLink final : public StreamLink, private StreamBridge {
 public:
  KeyedLink(const KeyedAddress& address, const std::string& name, double timeout_s)
      : StreamBridge(zmq::socket_type::dealer, address.unheard_s),
        events_(context().context(), socket(), stream_events) {
    // Not ZMQ_IMMEDIATE: with it, what has come is thrown away unread when the connection ends.
    socket().set(opt::handshake_ivl, 0);  // a listener may begin late to accept
    const Keyring keys(address.options.keys, address.options.drawn_keys);
    const KeyPair own = keys.pair(name);
    socket().set(opt::curve_publickey, own.public_key);
    socket().set(opt::curve_secretkey, own.secret_key);
    socket().set(opt::curve_serverkey, keys.public_key(server_key));
    const std::string where = fmt::format("{}:{}", address.options.address, address.options.port);
    socket().connect("tcp://" + where);
    wait_for_proof(address, name, where, timeout_s);
    own_end_ = begin_stream();
    thread_ = std::jthread([this](const std::stop_token& stop) {
      carry(stop);
      events_.end();
      socket().close();
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
      if (event->kind == ZMQ_EVENT_DISCONNECTED) leave_all();
    return nap;
  }

  SocketEvents events_;
  std::jthread thread_;
  Descriptor own_end_;  // closed before the thread is asked to stop
};

class KeyedListener final : public StreamListener, private StreamBridge {
 public:
  KeyedListener(const KeyedAddress& address, int workers, int most_streams)
      : StreamBridge(zmq::socket_type::router, address.unheard_s),
        workers_(workers),
        most_streams_(static_cast<std::size_t>(most_streams)),
        listener_(address.options, address.listener),
        waits_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK | EFD_SEMAPHORE)) {
    const Keyring keys(address.options.keys, address.options.drawn_keys);
    context().admit({.workers = workers, .keys = keys.members(workers, true)});
    socket().set(opt::handshake_ivl, static_cast<int>(handshake.count()));
    socket().set(opt::zap_domain, "ringside");
    socket().set(opt::curve_server, true);
    socket().set(opt::curve_secretkey, keys.pair(server_key).secret_key);
    unproven_.emplace(context().context(), socket(), listener_);
    listener_.accept_for(socket());
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
      end_all();  // this process sees that they have ended
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
      if (streams() >= most_streams_) throw Error("there are {} streams", streams());
      const bool server = member == workers_;
      announce({.socket = add(id), .holder = {server, server ? -1 : member}});
    } catch (const Error& error) {
      refuse(id);
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
