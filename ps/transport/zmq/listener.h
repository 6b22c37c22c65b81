// The socket at which a server accepts workers of other processes.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "ps/protocol/transport.h"

namespace zmq {
class socket_t;
}

namespace ringside::ps {

/// A file descriptor that its destructor closes.
class Descriptor {
 public:
  explicit Descriptor(int number = -1) : number_(number) {}
  Descriptor(Descriptor&& other) noexcept : number_(other.release()) {}
  Descriptor& operator=(Descriptor&& other) noexcept;
  ~Descriptor() { reset(); }
  int get() const { return number_; }
  void reset();
  int release();

 private:
  int number_;
};

/// The share of its file descriptors in use above which a process accepts no more connections.
inline constexpr double scarce_share = 0.5;
/// Throws Error if `count` connections of this process, which is `name` ("server 0"), would use up
/// more than `share` of its limit of file descriptors. ZeroMQ itself does not report a missing
/// descriptor: it tries again until a time-out.
void require_descriptors(const std::string& name, std::int64_t count, double share);

/// A listening socket. ZeroMQ accepts connections without any limit. Each takes a file descriptor,
/// and on local sockets ZeroMQ aborts the process when no descriptor is left. So ZeroMQ gets a
/// socket of ours, which this class can close to new connections without ending the open ones.
/// (ZeroMQ's own unbind() ends them.)
///  - ipc: a socket without a name. Its path goes through this process's descriptors
///    (/proc/PID/fd/N), so the system refuses processes of other users, and no process finds the
///    path once the descriptor is closed.
///  - tcp: a socket to which a filter can be attached that drops every packet of a new connection.
/// For one thread.
class Listener {
 public:
  /// Listens for a server, on port `options.port` + `server` (port 0: any). Throws Error if the
  /// process cannot listen at the address or the port; the error names the option of the port.
  Listener(const TransportOptions& options, int server);
  /// Listens for `name` ("the scheduler"), whose port all processes know. Throws Error as above.
  Listener(const TransportOptions& options, const std::string& name);

  /// The address to which a worker connects.
  const std::string& endpoint() const { return endpoint_; }
  /// The port on tcp.
  int port() const { return port_; }
  /// The listening socket, which can be read while a new connection waits.
  int file() const { return socket_.get(); }
  /// From now on ZeroMQ accepts connections for `router`. Until then the system keeps them waiting.
  void accept_for(zmq::socket_t& router);
  /// Whether new connections are accepted, at once or after a pause: until close().
  bool open() const { return open_; }
  /// Stops accepting connections.
  void close();
  /// Accepts connections for the router again after close(). The address of ipc is another one, as
  /// nobody may keep the old one; that of tcp stays.
  void reopen(zmq::socket_t& router);
  /// Pauses accepting while the process has used up half of its limit of file descriptors. To be
  /// called often while open(). (On tcp, strangers hold theirs no longer than the time limit of a
  /// handshake. On ipc they are processes of this user: there the call throws Error.)
  void spare_descriptors();

 private:
  /// Errors begin with `name`; `any` ends their advice to set another port.
  Listener(const TransportOptions& options, std::int64_t port, const std::string& name,
           std::string_view any);
  void listen_locally();
  void listen_on_tcp(const TransportOptions& options, std::int64_t port, const std::string& name,
                     std::string_view any);
  void drop_newcomers(bool drop);

  Descriptor socket_;  // the listening socket; ZeroMQ has a duplicate
  Descriptor name_;    // ipc: leads to the socket
  std::string endpoint_;
  int port_ = 0;
  bool tcp_ = false, open_ = true, dropping_ = false;
};

}  // namespace ringside::ps
