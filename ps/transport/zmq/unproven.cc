#include "ps/transport/zmq/unproven.h"

#include <fcntl.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <compare>
#include <utility>
#include <vector>

namespace ringside::ps {
namespace {

/// A connection that is younger may be in the midst of its handshake.
constexpr auto young = std::chrono::milliseconds(200);

std::uint64_t descriptor_limit() {
  rlimit limit{};
  return getrlimit(RLIMIT_NOFILE, &limit) == 0 ? limit.rlim_cur : 0;
}

std::uint64_t bytes_said(int socket) {
  tcp_info info{};
  socklen_t size = sizeof info;
  return getsockopt(socket, IPPROTO_TCP, TCP_INFO, &info, &size) == 0 ? info.tcpi_bytes_received
                                                                      : 0;
}

sockaddr_in address_of(int socket, decltype(getpeername)* get) {
  sockaddr_in address{};
  socklen_t size = sizeof address;
  if (get(socket, reinterpret_cast<sockaddr*>(&address), &size) != 0)
    address.sin_family = AF_UNSPEC;
  return address;
}

/// A connection as it is judged; the least is cut first.
struct Judged {
  std::size_t beside;  // how many more another address has
  bool is_young;
  std::uint64_t said;
  UnprovenConnections::Clock::time_point since;
  int theirs;
  auto operator<=>(const Judged&) const = default;
};

}  // namespace

std::size_t most_unproven(std::uint64_t descriptors) {
  constexpr std::uint64_t least = 8, most = 64, part = 16;
  return std::clamp(descriptors / part, least, most);
}

UnprovenConnections::UnprovenConnections(zmq::context_t& context, zmq::socket_t& socket,
                                         const Listener& listener)
    : events_(context, socket, ZMQ_EVENT_ACCEPTED | ZMQ_EVENT_DISCONNECTED),
      listener_(listener),
      spare_(fcntl(listener.file(), F_DUPFD_CLOEXEC, 0)),
      most_(most_unproven(descriptor_limit())) {}

void UnprovenConnections::proved(const zmq::message_t& part) {
  hear(Clock::now());  // of the connection, before it is looked for
  connections_.erase(zmq_msg_get(part.handle(), ZMQ_SRCFD));
}

void UnprovenConnections::look(Clock::time_point now) {
  hear(now);
  if (connections_.size() <= most_) return;
  std::map<std::uint32_t, std::size_t> of_address;
  for (const auto& [theirs, one] : connections_) ++of_address[one.address];
  std::vector<Judged> judged;
  for (const auto& [theirs, one] : connections_)
    judged.push_back({.beside = 0,
                      .is_young = now - one.since < young,
                      .said = bytes_said(theirs),
                      .since = one.since,
                      .theirs = theirs});
  while (connections_.size() > most_) {
    for (Judged& one : judged)
      one.beside = connections_.size() - of_address[connections_.at(one.theirs).address];
    const auto worst = std::min_element(judged.begin(), judged.end());
    --of_address[connections_.at(worst->theirs).address];
    cut(worst->theirs);
    judged.erase(worst);
  }
}

void UnprovenConnections::hear(Clock::time_point now) {
  while (const auto event = events_.next()) {
    const int theirs = static_cast<int>(event->value);
    ended_ += connections_.erase(theirs);
    if (event->kind == ZMQ_EVENT_ACCEPTED) take_in(theirs, now);
  }
}

void UnprovenConnections::take_in(int theirs, Clock::time_point now) {
  const sockaddr_in here = address_of(theirs, getsockname), there = address_of(theirs, getpeername),
                    listens = address_of(listener_.file(), getsockname);
  // Otherwise it has left already, and the number may be another file's.
  if (here.sin_family == AF_INET && there.sin_family == AF_INET &&
      here.sin_port == listens.sin_port)
    connections_.insert_or_assign(theirs, Connection{there.sin_addr.s_addr, there.sin_port, now});
  else
    ++ended_;
}

void UnprovenConnections::cut(int theirs) {
  const Connection known = connections_.at(theirs);
  connections_.erase(theirs);
  ++ended_;
  if (dup3(theirs, spare_.get(), O_CLOEXEC) < 0) return;
  const sockaddr_in there = address_of(spare_.get(), getpeername);
  if (there.sin_family == AF_INET && there.sin_addr.s_addr == known.address &&
      there.sin_port == known.port)
    shutdown(spare_.get(), SHUT_RDWR);
  dup3(listener_.file(), spare_.get(), O_CLOEXEC);
}

}  // namespace ringside::ps
