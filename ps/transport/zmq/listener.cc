#include "ps/transport/zmq/listener.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <limits>
#include <system_error>
#include <utility>
#include <zmq.hpp>

#include "core/base/error.h"
#include "core/base/loopback.h"

namespace ringside::ps {
namespace {

constexpr const char* loopback = "127.0.0.1";
/// The most connections that the system keeps waiting. They come even after the listener has
/// closed.
constexpr int backlog = 128;

std::int64_t open_descriptors() {
  std::error_code none_left;
  std::filesystem::directory_iterator files("/proc/self/fd", none_left);
  return none_left ? std::numeric_limits<std::int32_t>::max()
                   : std::distance(begin(files), end(files));
}

Error failed(const std::string& name, const std::string& what) {
  return Error("{}: {}: {}", name, what, std::strerror(errno));
}

}  // namespace

Descriptor& Descriptor::operator=(Descriptor&& other) noexcept {
  if (this != &other) {
    reset();
    number_ = other.release();
  }
  return *this;
}

void Descriptor::reset() {
  if (number_ >= 0) ::close(number_);
  number_ = -1;
}

int Descriptor::release() { return std::exchange(number_, -1); }

void require_descriptors(const std::string& name, std::int64_t count, double share) {
  constexpr std::int64_t of_the_rest = 8;  // that the rest of the process opens meanwhile
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return;
  const std::int64_t open = open_descriptors(), needed = open + count + of_the_rest;
  if (static_cast<double>(needed) <= share * static_cast<double>(limit.rlim_cur)) return;
  throw Error(
      "{}: its connections need more file descriptors than RLIMIT_NOFILE = {} leaves; raise it to "
      "{} (`ulimit -n`, also the hard limit), or use fewer workers or servers",
      name, limit.rlim_cur, static_cast<std::int64_t>(static_cast<double>(needed) / share) + 1);
}

Listener::Listener(const TransportOptions& options, int server)
    : Listener(options, options.port == 0 ? 0 : options.port + server,
               fmt::format("server {}", server), ", or to 0 for any free port") {}

Listener::Listener(const TransportOptions& options, const std::string& name)
    : Listener(options, options.port, name, " for all processes") {}

Listener::Listener(const TransportOptions& options, std::int64_t port, const std::string& name,
                   std::string_view any)
    : tcp_(options.transport == TransportKind::tcp) {
  // ZeroMQ accepts when it is told that somebody waits; who has left meanwhile must not block it.
  socket_ =
      Descriptor(socket(tcp_ ? AF_INET : AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (socket_.get() < 0) throw failed(name, "cannot make a socket");
  if (tcp_)
    listen_on_tcp(options, port, name, any);
  else
    listen_locally();
}

/// Binds the socket to a path in a folder of this user, opens the path and removes it.
void Listener::listen_locally() {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::string causes;
  for (const char* place : {"/dev/shm", "/tmp", "/var/tmp"}) {
    std::string folder = fmt::format("{}/ringside-XXXXXX", place);
    if (!mkdtemp(folder.data())) {
      causes += fmt::format("{}{}: {}", causes.empty() ? "" : "; ", place, std::strerror(errno));
      continue;
    }
    const std::string path = folder + "/socket";
    std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
    fchmod(socket_.get(), 0600);
    const bool bound =
        bind(socket_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0 &&
        listen(socket_.get(), backlog) == 0;
    if (bound) name_ = Descriptor(::open(path.c_str(), O_PATH | O_CLOEXEC));
    const int cause = errno;
    unlink(path.c_str());
    rmdir(folder.c_str());
    if (name_.get() < 0) throw Error("cannot listen in {}: {}", folder, std::strerror(cause));
    endpoint_ = fmt::format("ipc:///proc/{}/fd/{}", getpid(), name_.get());
    return;
  }
  throw Error("cannot make a folder for a local socket ({})", causes);
}

void Listener::listen_on_tcp(const TransportOptions& options, std::int64_t port,
                             const std::string& name, std::string_view any) {
  const std::string host = options.address.empty() ? loopback : options.address;
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  if (inet_pton(AF_INET, host.c_str(), &address.sin_addr) != 1)
    throw Error("{}: cannot listen on address \"{}\": it is no IPv4 address", name, host);
  if (!keyed(options) && ntohl(address.sin_addr.s_addr) >> 24 != IN_LOOPBACKNET)
    throw Error("{}: other machines reach address {}, and there are no keys", name, host);
  if (host.starts_with("127.")) require_loopback(name, host);
  const int yes = 1;
  setsockopt(socket_.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  socklen_t size = sizeof address;
  if (bind(socket_.get(), reinterpret_cast<const sockaddr*>(&address), size) != 0 ||
      listen(socket_.get(), backlog) != 0)
    throw Error("{}: cannot listen on port {} of {} ({}); set {} to another port{}", name, port,
                host, std::strerror(errno), options.port_option, any);
  if (getsockname(socket_.get(), reinterpret_cast<sockaddr*>(&address), &size) != 0)
    throw failed(name, "cannot tell the port");
  port_ = ntohs(address.sin_port);
  endpoint_ =
      fmt::format("tcp://{}:{}", options.advertise.empty() ? host : options.advertise, port_);
}

void Listener::accept_for(zmq::socket_t& router) {
  const int duplicate = fcntl(socket_.get(), F_DUPFD_CLOEXEC, 0);
  if (duplicate < 0) throw Error("cannot listen: {}", std::strerror(errno));
  router.set(zmq::sockopt::use_fd, duplicate);
  // ZeroMQ wants an address, but does not use it for a socket that listens already.
  router.bind(tcp_ ? "tcp://127.0.0.1:*" : "ipc://@ringside");
}

void Listener::close() {
  open_ = false;
  name_.reset();
  if (tcp_) drop_newcomers(true);
}

/// ZeroMQ keeps the closed local socket, which nobody can find.
void Listener::reopen(zmq::socket_t& router) {
  if (!tcp_) {
    socket_ = Descriptor(socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    if (socket_.get() < 0) throw failed("a server", "cannot make a socket");
    listen_locally();
    accept_for(router);
  } else {
    drop_newcomers(false);
  }
  open_ = true;
}

void Listener::spare_descriptors() {
  if (!open_) return;
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  // The system gives out the lowest number that is free.
  const Descriptor lowest(fcntl(socket_.get(), F_DUPFD_CLOEXEC, 0));
  const bool scarce = lowest.get() < 0 || static_cast<double>(lowest.get()) >
                                              scarce_share * static_cast<double>(limit.rlim_cur);
  if (!tcp_ && scarce) {
    close();
    throw Error(
        "this process has used up half of its {} file descriptors before all workers have come; "
        "end the program of this user that connects again and again, or raise `ulimit -n`",
        limit.rlim_cur);
  }
  if (scarce != dropping_) drop_newcomers(scarce);
}

/// A filter that takes 0 bytes of a packet drops it. Connections do not have it: they get the
/// listening socket's filter when they begin.
void Listener::drop_newcomers(bool drop) {
  sock_filter nothing = BPF_STMT(BPF_RET | BPF_K, 0);
  const sock_fprog program{1, &nothing};
  const int unused = 0;
  if (drop)
    setsockopt(socket_.get(), SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program);
  else
    setsockopt(socket_.get(), SOL_SOCKET, SO_DETACH_FILTER, &unused, sizeof unused);
  dropping_ = drop;
}

}  // namespace ringside::ps
