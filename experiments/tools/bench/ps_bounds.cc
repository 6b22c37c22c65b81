#include "experiments/tools/bench/ps_bounds.h"

#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <span>
#include <utility>

#include "core/base/error.h"
#include "experiments/tools/bench/own_processes.h"
#include "experiments/tools/bench/ps_values.h"
#include "ps/transport/zmq/round_trips.h"

namespace ringside::tools::bench {
namespace {

constexpr int processes = 2;
constexpr const char* zmq_key = "bench/zmq";
constexpr std::size_t call_bytes = 256 << 10;

[[noreturn]] void fail(const char* what) { throw Error("{}: {}", what, std::strerror(errno)); }

/// The two ends of a connection.
class Ends {
 public:
  Ends(int a, int b) : ends_{a, b} {}
  Ends(Ends&& other) noexcept : ends_(std::exchange(other.ends_, {-1, -1})) {}
  ~Ends() {
    for (const int end : ends_)
      if (end >= 0) close(end);
  }
  int operator[](int rank) const { return ends_[static_cast<std::size_t>(rank)]; }

 private:
  std::array<int, processes> ends_;
};

Ends connect_unix() {
  int ends[processes];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) fail("a socket pair");
  return {ends[0], ends[1]};
}

Ends connect_tcp() {
  const Ends listener(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), -1);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof address;
  auto* at = reinterpret_cast<sockaddr*>(&address);
  if (bind(listener[0], at, length) != 0 || listen(listener[0], 1) != 0 ||
      getsockname(listener[0], at, &length) != 0)
    fail("a TCP socket on 127.0.0.1");
  Ends ends(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), -1);
  if (connect(ends[0], at, length) != 0) fail("a TCP connection on 127.0.0.1");
  const int accepted = accept4(listener[0], nullptr, nullptr, SOCK_CLOEXEC);
  if (accepted < 0) fail("a TCP connection on 127.0.0.1");
  Ends both(dup(ends[0]), accepted);
  const int on = 1;
  for (const int rank : {0, 1}) setsockopt(both[rank], IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  return both;
}

/// Sends `from` and at the same time receives as many bytes into `to`.
void round_trip(int socket, std::span<const std::byte> from, std::span<std::byte> to) {
  while (!to.empty()) {
    pollfd ready{socket, static_cast<short>(from.empty() ? POLLIN : POLLIN | POLLOUT), 0};
    if (poll(&ready, 1, -1) < 0 && errno != EINTR) fail("poll");
    if ((ready.revents & POLLOUT) != 0 && !from.empty()) {
      const ssize_t n =
          send(socket, from.data(), std::min(from.size(), call_bytes), MSG_DONTWAIT | MSG_NOSIGNAL);
      if (n > 0) from = from.subspan(static_cast<std::size_t>(n));
      if (n < 0 && errno != EAGAIN && errno != EINTR) fail("send");
    }
    if ((ready.revents & (POLLIN | POLLHUP | POLLERR)) == 0) continue;
    const ssize_t n = recv(socket, to.data(), std::min(to.size(), call_bytes), MSG_DONTWAIT);
    if (n > 0) to = to.subspan(static_cast<std::size_t>(n));
    if (n == 0) throw Error("the other process has closed its socket");
    if (n < 0 && errno != EAGAIN && errno != EINTR) fail("recv");
  }
}

/// Sends back `bytes` bytes as they come, or, with MSG_WAITALL, after every full buffer.
void echo(int socket, std::size_t bytes, std::span<std::byte> buffer, int flags) {
  while (bytes > 0) {
    const ssize_t n = recv(socket, buffer.data(), std::min(bytes, buffer.size()), flags);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail("recv");
    if (n == 0) throw Error("the other process has closed its socket");
    bytes -= static_cast<std::size_t>(n);
    for (auto left = buffer.first(static_cast<std::size_t>(n)); !left.empty();) {
      const ssize_t sent = send(socket, left.data(), left.size(), MSG_NOSIGNAL);
      if (sent < 0 && errno != EINTR) fail("send");
      if (sent > 0) left = left.subspan(static_cast<std::size_t>(sent));
    }
  }
}

class BoundRank : public BenchRank {
 public:
  BoundRank(int rank, int tcp, int unix_socket, Store& store, double timeout_s)
      : rank_(rank),
        tcp_(tcp),
        unix_(unix_socket),
        barrier_(store, rank, processes, timeout_s),
        zmq_(timeout_s) {
    if (rank_ == 1)
      store.set(zmq_key, zmq_.listen());
    else
      zmq_.connect(store.get(zmq_key, timeout_s));
  }

  void make_arrays(const std::string&, std::int64_t count) override {
    for (auto* array : {&from_, &between_, &to_}) array->assign(static_cast<std::size_t>(count), 0);
  }
  void begin_turn(const std::string& way) override {
    const std::size_t half = from_.size() / processes;
    begin_ = way == "copy-2" && rank_ == 1 ? half : 0;
    end_ = way == "copy-2" && rank_ == 0 ? half : from_.size();
    if (way != "copy-2" && rank_ == 1) end_ = 0;
  }
  void fill() override {
    wrong_ += count_differences();
    fill_gradient(std::span(from_).subspan(begin_, end_ - begin_), rank_, round_++);
  }
  void meet() override { barrier_.meet(); }
  void call(const std::string& way) override {
    if (way == "zmq") {
      if (rank_ == 0)
        zmq_.round_trip(std::as_bytes(std::span(from_)), std::as_writable_bytes(std::span(to_)));
      else
        zmq_.echo(sizeof(float) * from_.size());
      return;
    }
    if (way == "tcp" || way == "unix") {
      const int socket = way == "tcp" ? tcp_ : unix_;
      if (rank_ == 0)
        round_trip(socket, std::as_bytes(std::span(from_)), std::as_writable_bytes(std::span(to_)));
      else
        echo(socket, 4 * from_.size(), buffer_, way == "tcp" ? MSG_WAITALL : 0);  // what is faster
      return;
    }
    std::copy(from_.begin() + offset(begin_), from_.begin() + offset(end_),
              between_.begin() + offset(begin_));
    std::copy(between_.begin() + offset(begin_), between_.begin() + offset(end_),
              to_.begin() + offset(begin_));
  }
  std::int64_t count_wrong() override {
    wrong_ += count_differences();
    return std::exchange(wrong_, 0);
  }

 private:
  static std::ptrdiff_t offset(std::size_t i) { return static_cast<std::ptrdiff_t>(i); }

  /// Elements of this rank's part that have not arrived.
  std::int64_t count_differences() const {
    std::int64_t different = 0;
    for (std::size_t i = begin_; i < end_; ++i) different += from_[i] != to_[i];
    return different;
  }

  int rank_, tcp_, unix_;
  SpinBarrier barrier_;
  ps::EchoEnd zmq_;
  std::vector<float> from_, between_, to_;
  std::vector<std::byte> buffer_ = std::vector<std::byte>(call_bytes);
  std::size_t begin_ = 0, end_ = 0;  // this rank's part
  std::int64_t round_ = 0, wrong_ = 0;
};

}  // namespace

const std::vector<std::string>& ps_bounds() {
  static const std::vector<std::string> ways = {"copy-1", "copy-2", "tcp", "unix", "zmq"};
  return ways;
}

std::unique_ptr<RankGroup> start_bounds(const RankProgram& program, double timeout_s,
                                        Patience patience) {
  const Ends tcp = connect_tcp(), local = connect_unix();
  std::vector<OwnProcess> ranks;
  for (const int rank : {0, 1})
    ranks.push_back({.work = {{"bounds", {{"tcp", tcp[rank]}, {"unix", local[rank]}}}},
                     .files = {tcp[rank], local[rank]}});
  return start_ranks("bench ps: bounds", program, plan_of_ranks({}, 2, timeout_s), ranks,
                     std::move(patience));
}

std::unique_ptr<BenchRank> make_bound_rank(int rank, int tcp, int unix_socket, Store& store,
                                           double timeout_s) {
  return std::make_unique<BoundRank>(rank, tcp, unix_socket, store, timeout_s);
}

}  // namespace ringside::tools::bench
