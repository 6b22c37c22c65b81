#include "experiments/benchmark/ps_job_socket.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <thread>
#include <utility>

#include "core/base/error.h"
#include "core/base/seconds_now.h"
#include "experiments/benchmark/loopback_users.h"
#include "experiments/benchmark/shared_ranks.h"
#include "ps/wires/zmq/keys.h"

namespace ringside {
namespace {

constexpr int most_waiting = 128;  // connections that nobody has accepted yet
constexpr auto nap = std::chrono::milliseconds(20);

sockaddr_in address_of(const char* option, const std::string& host, int port, bool keyed) {
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

sockaddr_in address_of(const PsJob& job) {
  return address_of("DMLC_PS_ROOT_URI", job.address, job.port, !job.reach.keys.empty());
}

ps::KeyedAddress keyed_address_of(const PsJob& job, double timeout_s) {
  return {.host = job.address,
          .port = job.port,
          .port_option = "DMLC_PS_ROOT_PORT",
          .keys = job.reach.keys,
          .unheard_s = timeout_s};
}

int most_streams(const PsJob& job) {
  return 2 * (job.workers + job.servers) + static_cast<int>(most_unknown);
}

const sockaddr* plain(const sockaddr_in& address) {
  return reinterpret_cast<const sockaddr*>(&address);
}

int send_at_once(int socket) {
  const int on = 1;
  setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  return socket;
}

std::string key_of(const PsJob& job) {
  return job.role == PsRole::worker ? ps::worker_key(job.worker) : ps::server_key;
}

/// A socket of this user's scheduler.
int connect_plainly(const PsJob& job, double timeout_s) {
  const sockaddr_in address = address_of(job);
  for (const double end = seconds_now() + timeout_s;;) {
    const int made = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (made >= 0 && connect(made, plain(address), sizeof address) == 0) {
      if (const auto user = user_of_listener(address); user == geteuid()) return send_at_once(made);
      close(made);
      throw Error(
          "nobody of this user is known to listen at {}:{}, and without --keys a job is of one "
          "user",
          job.address, job.port);
    }
    const int cause = errno;
    if (made >= 0) close(made);
    if (seconds_now() > end)
      throw Error(
          "no scheduler at {}:{} within {} s: {}; start it with the same environment and "
          "DMLC_ROLE=scheduler",
          job.address, job.port, timeout_s, std::strerror(cause));
    std::this_thread::sleep_for(nap);
  }
}

}  // namespace

void check(const PsJob& job) {
  static_cast<void>(address_of(job));
  const bool keyed = !job.reach.keys.empty();
  if (!job.reach.address.empty())
    static_cast<void>(address_of("DMLC_NODE_HOST", job.reach.address, 0, keyed));
  const auto within = [](const char* variable, int value, int least, int most) {
    if (value < least || value > most)
      throw Error("{} = {} must lie between {} and {}", variable, value, least, most);
  };
  within("DMLC_PS_ROOT_PORT", job.port, job.role == PsRole::scheduler ? 0 : 1, 65535);
  within("DMLC_NUM_WORKER", job.workers, 1, most_processes);
  within("DMLC_NUM_SERVER", job.servers, 1, most_processes);
  within("DMLC_WORKER_ID", job.worker, -1, job.workers - 1);
  if (!keyed) return;
  if (job.role == PsRole::worker && job.worker < 0)
    throw Error("--keys: DMLC_WORKER_ID is not set, and every worker has a key of its own");
  static_cast<void>(ps::read_key_pair(job.reach.keys, key_of(job)));
  static_cast<void>(ps::read_public_key(job.reach.keys, ps::server_key));
}

std::int64_t open_files_of_scheduler(const PsJob& job) {
  constexpr std::int64_t of_a_stream = 3;  // with keys: ZeroMQ's socket and both ends of the local
  return (job.reach.keys.empty() ? 1 : of_a_stream) * most_streams(job);
}

JobListener::JobListener(const PsJob& job, double timeout_s) {
  if (job.reach.keys.empty()) {
    listen(job);
    return;
  }
  ps::KeyedAddress address = keyed_address_of(job, timeout_s);
  if (!job.reach.address.empty()) address.host = job.reach.address;
  keyed_.emplace(address, job.workers, most_streams(job));
}

void JobListener::listen(const PsJob& job) {
  socket_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  const sockaddr_in address = address_of(job);
  const int on = 1;
  setsockopt(socket_, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (bind(socket_, plain(address), sizeof address) == 0 && ::listen(socket_, most_waiting) == 0)
    return;
  const int cause = errno;
  close();
  throw Error("the scheduler cannot listen on {}:{}: {}; choose another DMLC_PS_ROOT_PORT",
              job.address, job.port, std::strerror(cause));
}

JobListener::~JobListener() { close(); }

void JobListener::close() {
  if (keyed_) keyed_->close();
  if (socket_ >= 0) ::close(std::exchange(socket_, -1));
}

int JobListener::file() const { return keyed_ ? keyed_->file() : socket_; }

int JobListener::port() const {
  if (keyed_) return keyed_->port();
  sockaddr_in address{};
  socklen_t length = sizeof address;
  getsockname(socket_, reinterpret_cast<sockaddr*>(&address), &length);
  return ntohs(address.sin_port);
}

std::optional<JobConnection> JobListener::accept() {
  if (keyed_) {
    const auto stream = keyed_->accept();
    if (!stream) return {};
    const bool server = stream->member == keyed_->server_member();
    return JobConnection{stream->socket,
                         KeyHolder{.server = server, .worker = server ? -1 : stream->member}};
  }
  const int socket = accept4(socket_, nullptr, nullptr, SOCK_CLOEXEC);
  if (socket < 0) return {};
  if (const auto user = user_of_peer(socket); user != geteuid()) {
    ::close(socket);
    if (user) throw Error("a connection of user {}: without --keys a job is of one user", *user);
    throw Error("a connection that has ended, or whose user /proc/net/tcp does not tell");
  }
  return JobConnection{send_at_once(socket)};
}

SchedulerLink::SchedulerLink(const PsJob& job, double timeout_s) {
  if (job.reach.keys.empty()) {
    socket_ = connect_plainly(job, timeout_s);
    return;
  }
  try {
    keyed_ =
        std::make_unique<ps::KeyedStream>(keyed_address_of(job, timeout_s), key_of(job), timeout_s);
  } catch (const Error& error) {
    throw Error("the scheduler: {}", error.what());
  }
  socket_ = keyed_->release_socket();
}

SchedulerLink::~SchedulerLink() {
  if (socket_ >= 0) close(socket_);
}

int SchedulerLink::release_socket() { return std::exchange(socket_, -1); }

std::string own_address(const PsJob& job) {
  // No packet is sent: the system only looks which of this host's addresses it would take.
  const int socket = ::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  const sockaddr_in scheduler = address_of(job);
  sockaddr_in own{};
  socklen_t length = sizeof own;
  const bool known = socket >= 0 && connect(socket, plain(scheduler), sizeof scheduler) == 0 &&
                     getsockname(socket, reinterpret_cast<sockaddr*>(&own), &length) == 0;
  const int cause = errno;
  if (socket >= 0) close(socket);
  char text[INET_ADDRSTRLEN] = {};
  if (!known || !inet_ntop(AF_INET, &own.sin_addr, text, sizeof text))
    throw Error("no way to the scheduler at {}: {}; set DMLC_NODE_HOST to this host's address",
                job.address, std::strerror(cause));
  return text;
}

}  // namespace ringside
