#include "experiments/runner/hosts/rendezvous.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <fstream>
#include <optional>
#include <sstream>
#include <string>
#include <thread>
#include <utility>

#include "core/base/error.h"
#include "core/base/loopback.h"
#include "core/base/seconds_now.h"
#include "ps/transport/zmq/listener.h"

namespace ringside::runner {
namespace {

/// The system's names of states.
constexpr const char *established = "01", *listening = "0A";

/// As the system writes addresses: the four bytes as a number of this machine, then the port.
std::string text_of(const sockaddr_in& address) {
  return fmt::format("{:08X}:{:04X}", address.sin_addr.s_addr, ntohs(address.sin_port));
}

/// The owner of the socket with these addresses and this state. Columns: number, own address, the
/// other's address, state, queues, timer, retransmissions, user.
std::optional<uid_t> user_of(const std::string& own, const std::string& other,
                             const std::string& state) {
  std::ifstream table("/proc/net/tcp");
  std::string line;
  std::getline(table, line);
  while (std::getline(table, line)) {
    std::istringstream words(line);
    std::string number, from, to, is, queues, timer, again;
    uid_t user = 0;
    if (words >> number >> from >> to >> is >> queues >> timer >> again >> user && from == own &&
        to == other && is == state)
      return user;
  }
  return {};
}

/// The user whose process has made the connection that `socket` has accepted, or none if the
/// connection has ended meanwhile or the system does not say. For addresses of the loopback
/// interface.
std::optional<uid_t> user_of_peer(int socket) {
  sockaddr_in own{}, other{};
  socklen_t size = sizeof own;
  if (getsockname(socket, reinterpret_cast<sockaddr*>(&own), &size) != 0) return {};
  size = sizeof other;
  if (getpeername(socket, reinterpret_cast<sockaddr*>(&other), &size) != 0) return {};
  return user_of(text_of(other), text_of(own), established);
}

/// The user whose process listens at this address; none if nobody does or the system does not say.
std::optional<uid_t> user_of_listener(const sockaddr_in& address) {
  return user_of(text_of(address), "00000000:0000", listening);
}

constexpr auto nap = std::chrono::milliseconds(20);

sockaddr_in address_of(const std::string& option, const std::string& host, int port, bool keyed) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  if (inet_pton(AF_INET, host.c_str(), &address.sin_addr) != 1)
    throw Error("{} = {} is no IPv4 address, as 192.168.1.5 is, or 127.0.0.1 without --keys",
                option, host);
  if (!keyed && (ntohl(address.sin_addr.s_addr) >> 24) != 127)
    throw Error(
        "{} = {}: other hosts could connect; make keys with `ringside keys DIR` and start all "
        "processes of the job with --keys DIR",
        option, host);
  return address;
}

sockaddr_in address_of(const Rendezvous& rendezvous) {
  return address_of(rendezvous.address_option, rendezvous.address, rendezvous.port,
                    keyed(rendezvous));
}

ps::KeyedAddress keyed_address_of(const Rendezvous& rendezvous, double unheard_s) {
  return {.options = {.transport = ps::TransportKind::tcp,
                      .port = rendezvous.port,
                      .port_option = rendezvous.port_option,
                      .address = rendezvous.address,
                      .keys = rendezvous.keys,
                      .drawn_keys = rendezvous.drawn_keys},
          .listener = "the " + rendezvous.leader,
          .remedy = rendezvous.remedy,
          .unheard_s = unheard_s};
}

const sockaddr* plain(const sockaddr_in& address) {
  return reinterpret_cast<const sockaddr*>(&address);
}

void send_at_once(int socket) {
  const int on = 1;
  setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

class PlainListener final : public ps::StreamListener {
 public:
  explicit PlainListener(const ps::KeyedAddress& address) {
    listener_.emplace(address.options, address.listener);
  }
  int port() const override { return listener_->port(); }
  int file() const override { return listener_ ? listener_->file() : -1; }
  std::optional<ps::AcceptedStream> accept() override {
    ps::Descriptor socket(accept4(file(), nullptr, nullptr, SOCK_CLOEXEC));
    if (socket.get() < 0) return {};
    send_at_once(socket.get());
    const auto user = user_of_peer(socket.get());
    if (user == geteuid()) return ps::AcceptedStream{socket.release()};
    if (user) throw Error("a connection of user {}: without --keys a job is of one user", *user);
    throw Error("a connection that has ended, or whose user /proc/net/tcp does not tell");
  }
  std::size_t strangers() const override { return 0; }
  void close() override { listener_.reset(); }

 private:
  std::optional<ps::Listener> listener_;
};

class PlainLink final : public ps::StreamLink {
 public:
  /// Connects with a leader of this user.
  PlainLink(const Rendezvous& rendezvous, double timeout_s) {
    const sockaddr_in address = address_of(rendezvous);
    require_loopback("the " + rendezvous.leader, rendezvous.address);
    for (const double end = seconds_now() + timeout_s;; std::this_thread::sleep_for(nap)) {
      socket_ = ps::Descriptor(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
      if (socket_.get() >= 0 && connect(socket_.get(), plain(address), sizeof address) == 0) break;
      if (seconds_now() > end)
        throw Error("no {} at {}:{} within {} s: {}; {}", rendezvous.leader, rendezvous.address,
                    rendezvous.port, timeout_s, std::strerror(errno), rendezvous.remedy);
    }
    if (user_of_listener(address) != geteuid())
      throw Error(
          "nobody of this user is known to listen at {}:{}, and without --keys a job is of one "
          "user",
          rendezvous.address, rendezvous.port);
    send_at_once(socket_.get());
  }
  int release_socket() override { return socket_.release(); }

 private:
  ps::Descriptor socket_;
};

}  // namespace

void check_address(const std::string& option, const std::string& address, bool keyed) {
  static_cast<void>(address_of(option, address, 0, keyed));
}

std::unique_ptr<ps::StreamListener> listen_for_job(const Rendezvous& rendezvous,
                                                   const std::string& listens_at, int workers,
                                                   int most_streams, double unheard_s) {
  ps::KeyedAddress address = keyed_address_of(rendezvous, unheard_s);
  if (!keyed(rendezvous)) {
    static_cast<void>(address_of(rendezvous));
    return std::make_unique<PlainListener>(address);
  }
  if (!listens_at.empty()) address.options.address = listens_at;
  return ps::listen_with_keys(address, workers, most_streams);
}

std::unique_ptr<ps::StreamLink> connect_to_leader(const Rendezvous& rendezvous, double timeout_s,
                                                  double unheard_s) {
  if (!keyed(rendezvous)) return std::make_unique<PlainLink>(rendezvous, timeout_s);
  try {
    return ps::connect_with_key(keyed_address_of(rendezvous, unheard_s), rendezvous.key, timeout_s);
  } catch (const Error& error) {
    throw Error("the {}: {}", rendezvous.leader, error.what());
  }
}

std::string own_address_towards(const std::string& address, const std::string& remedy) {
  // No packet is sent: the system only looks which of this host's addresses it would take.
  const ps::Descriptor socket(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  const sockaddr_in other = address_of("the address", address, 9, true);
  sockaddr_in own{};
  socklen_t length = sizeof own;
  const bool known = socket.get() >= 0 && connect(socket.get(), plain(other), sizeof other) == 0 &&
                     getsockname(socket.get(), reinterpret_cast<sockaddr*>(&own), &length) == 0;
  const int cause = errno;
  char text[INET_ADDRSTRLEN] = {};
  if (!known || !inet_ntop(AF_INET, &own.sin_addr, text, sizeof text))
    throw Error("no way to {}: {}; {}", address, std::strerror(cause), remedy);
  return text;
}

}  // namespace ringside::runner
