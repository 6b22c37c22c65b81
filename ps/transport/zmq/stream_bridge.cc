#include "ps/transport/zmq/stream_bridge.h"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

#include "core/base/error.h"

namespace ringside::ps {
namespace {

namespace opt = zmq::sockopt;
using std::chrono::milliseconds;

constexpr std::size_t most_bytes_a_message = 32 << 10;
/// While this process does not read so many bytes of a stream, nothing more is taken from ZeroMQ,
/// and other hosts soon cannot send.
constexpr std::size_t most_unread = 4 << 20;
/// How long bytes of a stream that has ended are kept for a process that does not read them.
constexpr milliseconds kept{1000};
/// How long what was written may take to leave: to ZeroMQ, and then with it.
constexpr milliseconds linger{2000}, zmq_linger{1000};
/// The system's probes of a silent connection.
constexpr int silent_s = 5, probes = 3, probe_s = 3;

}  // namespace

StreamBridge::StreamBridge(zmq::socket_type type, double unheard_s)
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

void StreamBridge::Stream::leave() {
  if (!leaves) leaves = Clock::now() + kept;
}

std::optional<std::string> StreamBridge::Stream::read() const {
  std::string message(1 + most_bytes_a_message, data_word);
  const ssize_t n = recv(local.get(), message.data() + 1, most_bytes_a_message, MSG_DONTWAIT);
  if (n < 0 && (errno == EAGAIN || errno == EINTR)) return {};
  message.resize(n > 0 ? 1 + static_cast<std::size_t>(n) : 1);
  if (n <= 0) message.front() = end_word;
  return message;
}

void StreamBridge::Stream::flush() {
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

Descriptor StreamBridge::add(const std::string& id) {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
    throw Error("cannot make a pair of sockets: {}", std::strerror(errno));
  streams_.emplace(id, Stream{Descriptor(ends[0])});
  return Descriptor(ends[1]);
}

Descriptor StreamBridge::begin_stream() {
  Descriptor own = add("");
  streams_.at("").unsent = std::string{begin_word};
  return own;
}

void StreamBridge::leave_all() {
  for (auto& [id, stream] : streams_) stream.leave();
}

std::optional<bool> StreamBridge::send(const std::string& id, const std::string& message) try {
  constexpr auto now = zmq::send_flags::dontwait;
  if (routes_ && !zmq_.send(zmq::buffer(id), now | zmq::send_flags::sndmore)) return false;
  return zmq_.send(zmq::buffer(message), now).has_value();
} catch (const zmq::error_t& error) {
  if (error.num() != EHOSTUNREACH) throw;
  return std::nullopt;
}

void StreamBridge::carry(const std::stop_token& stop) {
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

void StreamBridge::wait(milliseconds longest) {
  std::vector<zmq::pollitem_t> items = {events()};
  if (!is_full()) items.push_back({zmq_.handle(), 0, ZMQ_POLLIN, 0});
  for (const auto& [id, stream] : streams_) {
    const int wanted = (stream.unsent || stream.leaves ? 0 : ZMQ_POLLIN) |
                       (stream.unread.empty() ? 0 : ZMQ_POLLOUT);
    // The system says of every file that its other end is closed, asked or not.
    if (wanted != 0) items.push_back({nullptr, stream.local.get(), static_cast<short>(wanted), 0});
  }
  try {
    zmq::poll(items, longest);
  } catch (const zmq::error_t& error) {
    if (error.num() != EINTR) throw;
  }
}

void StreamBridge::send_written(const std::string& id, Stream& stream) {
  while (!stream.leaves) {
    if (!stream.unsent) stream.unsent = stream.read();
    if (!stream.unsent) return;
    const auto sent = send(id, *stream.unsent);
    if (sent && !*sent) return;
    if (!sent || stream.unsent->front() == end_word) stream.leave();
    stream.unsent.reset();
  }
}

bool StreamBridge::is_full() const {
  return std::any_of(streams_.begin(), streams_.end(),
                     [](const auto& one) { return one.second.unread.size() > most_unread; });
}

void StreamBridge::receive() {
  for (zmq::message_t id, part; !is_full();) {
    if (routes_ && !zmq_.recv(id, zmq::recv_flags::dontwait)) return;
    if (!zmq_.recv(part, zmq::recv_flags::dontwait)) return;
    const bool whole = !part.more() && part.size() > 0;
    while (part.more())  // a message has one part; nothing of others is kept
      if (!zmq_.recv(part)) return;
    if (whole) take(routes_ ? id.to_string() : "", part);
  }
}

void StreamBridge::take(const std::string& id, const zmq::message_t& part) {
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

}  // namespace ringside::ps
