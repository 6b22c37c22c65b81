// Many plain sockets at once that do not belong to the run.
#pragma once

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>
#include <vector>

namespace ringside::testing {

/// A plain connection to a server on tcp, or -1 if it is not made within the time.
inline int connect_to(const std::string& endpoint, int patience_ms) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port =
      htons(static_cast<std::uint16_t>(std::stoi(endpoint.substr(endpoint.rfind(':') + 1))));
  const int number = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  connect(number, reinterpret_cast<const sockaddr*>(&address), sizeof address);
  pollfd item{number, POLLOUT, 0};
  int error = 0;
  socklen_t size = sizeof error;
  if (poll(&item, 1, patience_ms) == 1 &&
      getsockopt(number, SOL_SOCKET, SO_ERROR, &error, &size) == 0 && error == 0)
    return number;
  close(number);
  return -1;
}

/// Opens idle connections in a process of its own, and keeps them until the crowd goes.
class Crowd {
 public:
  /// Whether a connection that the server ends is opened again.
  enum class Reopens : bool { no, yes };

  Crowd(const std::string& endpoint, int size, Reopens reopens = Reopens::no) {
    int ready[2];
    EXPECT_EQ(pipe(ready), 0);
    EXPECT_EQ(pipe(end_), 0);
    child_ = fork();
    if (child_ == 0) {
      close(end_[1]);
      rlimit limit{};
      getrlimit(RLIMIT_NOFILE, &limit);
      limit.rlim_cur = limit.rlim_max;
      setrlimit(RLIMIT_NOFILE, &limit);
      std::vector<pollfd> idle = {{end_[0], POLLIN, 0}};
      for (int i = 0; i < size; ++i) idle.push_back({connect_to(endpoint, 0), POLLIN, 0});
      const char byte = 0;
      if (write(ready[1], &byte, 1) != 1) _exit(1);
      while (poll(idle.data(), reopens == Reopens::yes ? idle.size() : 1, 10) >= 0) {
        if (idle.front().revents != 0) _exit(0);
        // Not more at once, or the system's queue of newcomers is always full.
        int opens = reopens == Reopens::yes ? 20 : 0;
        for (std::size_t i = 1; i < idle.size() && opens > 0; ++i) {
          if (idle[i].fd >= 0 && !has_ended(idle[i])) continue;
          if (idle[i].fd >= 0) close(idle[i].fd);
          idle[i].fd = connect_to(endpoint, 0);
          --opens;
        }
      }
      _exit(1);
    }
    close(ready[1]);
    char byte = 0;
    EXPECT_EQ(read(ready[0], &byte, 1), 1);
    close(ready[0]);
  }
  ~Crowd() {
    close(end_[0]);
    close(end_[1]);
    waitpid(child_, nullptr, 0);
  }
  Crowd(const Crowd&) = delete;
  Crowd& operator=(const Crowd&) = delete;

 private:
  static bool has_ended(const pollfd& idle) {
    char said[256];
    return idle.revents != 0 && recv(idle.fd, said, sizeof said, MSG_DONTWAIT) <= 0;
  }

  int end_[2];
  pid_t child_ = -1;
};

/// Few file descriptors for this process, for a while.
class FewDescriptors {
 public:
  explicit FewDescriptors(rlim_t most) {
    getrlimit(RLIMIT_NOFILE, &before_);
    rlimit limit = before_;
    limit.rlim_cur = most;
    setrlimit(RLIMIT_NOFILE, &limit);
  }
  ~FewDescriptors() { setrlimit(RLIMIT_NOFILE, &before_); }
  FewDescriptors(const FewDescriptors&) = delete;
  FewDescriptors& operator=(const FewDescriptors&) = delete;

 private:
  rlimit before_{};
};

}  // namespace ringside::testing
