#include "ps/transport/zmq/stream_bridge.h"

#include <fcntl.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "core/base/error.h"

namespace ringside::ps {
namespace {

constexpr std::size_t most_waiting = 4 << 20;
constexpr int linger_ms = 1000;
constexpr int silent_s = 5, probes = 3, probe_s = 3;

}  // namespace

std::array<Descriptor, 2> local_stream() {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
    throw Error("cannot make a pair of sockets: {}", std::strerror(errno));
  fcntl(ends[0], F_SETFL, O_NONBLOCK);  // the carrier's; the other blocks as any socket does
  return {Descriptor(ends[0]), Descriptor(ends[1])};
}

zmq::pollitem_t LocalEnd::item(bool reads) const {
  const int events = (reads ? ZMQ_POLLIN : 0) | (flushed() ? 0 : ZMQ_POLLOUT);
  return {nullptr, socket_.get(), static_cast<short>(events), 0};
}

bool LocalEnd::write(std::string_view bytes) {
  waiting_ += bytes;
  flush();
  return waiting_.size() <= most_waiting;
}

void LocalEnd::flush() {
  while (!waiting_.empty()) {
    const ssize_t n =
        send(socket_.get(), waiting_.data(), waiting_.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno == EAGAIN) return;
    if (n < 0) return waiting_.clear();  // the process has closed its end, which read() notices
    waiting_.erase(0, static_cast<std::size_t>(n));
  }
}

std::optional<std::string> LocalEnd::read() {
  std::string message(1 + most_bytes_a_message, data_word);
  const ssize_t n = recv(socket_.get(), message.data() + 1, most_bytes_a_message, MSG_DONTWAIT);
  if (n < 0 && (errno == EAGAIN || errno == EINTR)) return {};
  if (n <= 0) return std::string(1, end_word);
  message.resize(1 + static_cast<std::size_t>(n));
  return message;
}

void set_up(zmq::socket_t& socket, double unheard_s) {
  namespace opt = zmq::sockopt;
  socket.set(opt::linger, linger_ms);
  // Twice as much: an encrypted message is a little longer.
  socket.set(opt::maxmsgsize, static_cast<std::int64_t>(2 * most_bytes_a_message));
  socket.set(opt::tcp_keepalive, 1);
  socket.set(opt::tcp_keepalive_idle, silent_s);
  socket.set(opt::tcp_keepalive_cnt, probes);
  socket.set(opt::tcp_keepalive_intvl, probe_s);
  socket.set(opt::tcp_maxrt, std::max(1, static_cast<int>(std::min(1e3 * unheard_s, 2e9))));
}

}  // namespace ringside::ps
