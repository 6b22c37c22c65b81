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

#include "core/base/error.h"
#include "core/base/seconds_now.h"
#include "experiments/benchmark/shared_ranks.h"

namespace ringside {
namespace {

constexpr int most_waiting = 128;  // connections that nobody has accepted yet
constexpr auto nap = std::chrono::milliseconds(20);

sockaddr_in address_of(const PsJob& job) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(job.port));
  if (inet_pton(AF_INET, job.address.c_str(), &address.sin_addr) != 1 ||
      (ntohl(address.sin_addr.s_addr) >> 24) != 127)
    throw Error(
        "DMLC_PS_ROOT_URI = {}: a job runs on this machine alone, so the address must be one of "
        "its "
        "loopback interface, as 127.0.0.1; beyond it, strangers would have to be kept out by keys",
        job.address);
  return address;
}

const sockaddr* plain(const sockaddr_in& address) {
  return reinterpret_cast<const sockaddr*>(&address);
}

int send_at_once(int socket) {
  const int on = 1;
  setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  return socket;
}

}  // namespace

void check(const PsJob& job) {
  static_cast<void>(address_of(job));
  const auto within = [](const char* variable, int value, int least, int most) {
    if (value < least || value > most)
      throw Error("{} = {} must lie between {} and {}", variable, value, least, most);
  };
  within("DMLC_PS_ROOT_PORT", job.port, job.role == PsRole::scheduler ? 0 : 1, 65535);
  within("DMLC_NUM_WORKER", job.workers, 1, most_processes);
  within("DMLC_NUM_SERVER", job.servers, 1, most_processes);
  within("DMLC_WORKER_ID", job.worker, -1, job.workers - 1);
}

JobListener::JobListener(const PsJob& job)
    : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)) {
  const sockaddr_in address = address_of(job);
  const int on = 1;
  setsockopt(socket_, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (bind(socket_, plain(address), sizeof address) == 0 && listen(socket_, most_waiting) == 0)
    return;
  const int cause = errno;
  close(socket_);
  throw Error("the scheduler cannot listen on {}:{}: {}; choose another DMLC_PS_ROOT_PORT",
              job.address, job.port, std::strerror(cause));
}

JobListener::~JobListener() { close(socket_); }

int JobListener::port() const {
  sockaddr_in address{};
  socklen_t length = sizeof address;
  getsockname(socket_, reinterpret_cast<sockaddr*>(&address), &length);
  return ntohs(address.sin_port);
}

int JobListener::accept() const {
  const int socket = accept4(socket_, nullptr, nullptr, SOCK_CLOEXEC);
  return socket < 0 ? -1 : send_at_once(socket);
}

int connect_to_scheduler(const PsJob& job, double timeout_s) {
  const sockaddr_in address = address_of(job);
  for (const double end = seconds_now() + timeout_s;;) {
    const int made = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (made >= 0 && connect(made, plain(address), sizeof address) == 0) return send_at_once(made);
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

}  // namespace ringside
