#include <chrono>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "ps/transport/zmq/keyed_streams.h"
#include "ps/transport/zmq/keys.h"
#include "ps/transport/zmq/socket_events.h"
#include "ps/transport/zmq/stream_bridge.h"

namespace ringside::ps {
namespace {

using Clock = std::chrono::steady_clock;

constexpr auto nap = std::chrono::milliseconds(100);
constexpr auto stream_linger = std::chrono::seconds(1);
/// How often a connection may end before it is made: a listener that is about to end takes one.
constexpr int most_failures = 3;

constexpr int stream_events = ZMQ_EVENT_DISCONNECTED | ZMQ_EVENT_HANDSHAKE_SUCCEEDED |
                              ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL |
                              ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL | ZMQ_EVENT_HANDSHAKE_FAILED_AUTH;

void poll(std::vector<zmq::pollitem_t> items, std::chrono::milliseconds longest) {
  // The system says of every file that its other end is closed, asked or not.
  std::erase_if(items, [](const zmq::pollitem_t& item) { return item.events == 0; });
  try {
    zmq::poll(items, longest);
  } catch (const zmq::error_t& error) {
    if (error.num() != EINTR) throw;
  }
}

}  // namespace

class KeyedStream::Carrier {
 public:
  Carrier(const KeyedAddress& address, const std::string& name, double timeout_s)
      : dealer_(context_, zmq::socket_type::dealer), events_(context_, dealer_, stream_events) {
    namespace opt = zmq::sockopt;
    set_up(dealer_, address.unheard_s);
    dealer_.set(opt::handshake_ivl, 0);  // a listener may begin late to accept
    dealer_.set(opt::immediate, true);
    const Keyring keys(address.keys, address.drawn_keys);
    const KeyPair own = keys.pair(name);
    dealer_.set(opt::curve_publickey, own.public_key);
    dealer_.set(opt::curve_secretkey, own.secret_key);
    dealer_.set(opt::curve_serverkey, keys.public_key(server_key));
    const std::string where = fmt::format("{}:{}", address.host, address.port);
    dealer_.connect("tcp://" + where);
    wait_for_proof(address, name, where, timeout_s);
    auto [own_end, others] = local_stream();
    local_.emplace(std::move(own_end));
    released_ = std::move(others);
    thread_ = std::jthread([this](const std::stop_token& stop) { run(stop); });
  }
  ~Carrier() {
    released_.reset();
    thread_.request_stop();
    if (thread_.joinable()) thread_.join();
  }
  Carrier(const Carrier&) = delete;
  Carrier& operator=(const Carrier&) = delete;

  int release_socket() { return released_.release(); }

 private:
  void wait_for_proof(const KeyedAddress& address, const std::string& name,
                      const std::string& where, double timeout_s) {
    int failures = 0;
    for (const auto end = Clock::now() + std::chrono::duration<double>(timeout_s);;) {
      while (const auto event = events_.next()) {
        if (event->kind == ZMQ_EVENT_HANDSHAKE_SUCCEEDED) return;
        if (event->kind == ZMQ_EVENT_HANDSHAKE_FAILED_AUTH)
          throw Error(
              "{} does not know the key {}/{}.public; copy the keys of one call of `ringside keys` "
              "to all hosts",
              where, address.keys, name);
        if (event->kind == ZMQ_EVENT_DISCONNECTED) continue;
        if (++failures == most_failures)
          throw Error(
              "{} ends the connection without a proof that it has the secret to {}/{}.public; were "
              "both sides given keys, of one call of `ringside keys`?",
              where, address.keys, server_key);
      }
      if (Clock::now() > end)
        throw Error("nobody at {} has proved within {} s to have the secret to {}/{}.public; {}",
                    where, timeout_s, address.keys, server_key, address.remedy);
      poll({events_.item()}, nap);
    }
  }

  void run(const std::stop_token& stop) {
    std::optional<std::string> unsent(std::string(1, begin_word));
    std::optional<Clock::time_point> end;
    for (bool over = false; !over;) {
      if (stop.stop_requested() && !end) end = Clock::now() + stream_linger;
      if (end && Clock::now() > *end) break;
      const int wanted = ZMQ_POLLIN | (unsent ? ZMQ_POLLOUT : 0);
      poll({{dealer_.handle(), 0, static_cast<short>(wanted), 0},
            events_.item(),
            local_->item(!unsent)},
           nap);
      local_->flush();
      over = !receive();
      while (const auto event = events_.next())
        if (event->kind == ZMQ_EVENT_DISCONNECTED && !over) {
          receive();  // what came in the meantime came before the end
          over = true;
        }
      while (!over) {
        if (!unsent) unsent = local_->read();
        if (!unsent || !dealer_.send(zmq::buffer(*unsent), zmq::send_flags::dontwait)) break;
        over = unsent->front() == end_word;
        unsent.reset();
      }
    }
    for (const auto last = Clock::now() + stream_linger;
         !local_->flushed() && Clock::now() < last;) {
      poll({local_->item(false)}, nap);
      local_->flush();
    }
    local_.reset();
    events_.end();
    dealer_.close();
  }

  /// Takes what has come. Returns false if the other side has ended.
  bool receive() {
    zmq::message_t part;
    while (dealer_.recv(part, zmq::recv_flags::dontwait)) {
      const auto text = part.to_string_view();
      if (part.more() || text.empty() || text.front() == end_word) return false;
      if (text.front() == data_word && !local_->write(text.substr(1))) return false;
    }
    return true;
  }

  zmq::context_t context_;
  zmq::socket_t dealer_;
  SocketEvents events_;
  std::optional<LocalEnd> local_;
  Descriptor released_;
  std::jthread thread_;
};

KeyedStream::KeyedStream(const KeyedAddress& address, const std::string& name, double timeout_s)
    : carrier_(std::make_unique<Carrier>(address, name, timeout_s)) {}
KeyedStream::~KeyedStream() = default;
int KeyedStream::release_socket() { return carrier_->release_socket(); }

}  // namespace ringside::ps
