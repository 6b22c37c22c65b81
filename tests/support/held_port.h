// A port of the loopback interface that no other test gets.
#pragma once

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

namespace ringside::testing {

/// Two may bind the port if only one of them listens, and no other process gets it.
class HeldPort {
 public:
  HeldPort() : socket_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    address_.sin_family = AF_INET;
    address_.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const int on = 1;
    setsockopt(socket_, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    socklen_t length = sizeof address_;
    auto* at = reinterpret_cast<sockaddr*>(&address_);
    EXPECT_EQ(bind(socket_, at, length), 0);
    EXPECT_EQ(getsockname(socket_, at, &length), 0);
  }
  ~HeldPort() { close(socket_); }
  HeldPort(const HeldPort&) = delete;
  HeldPort& operator=(const HeldPort&) = delete;

  int number() const { return ntohs(address_.sin_port); }
  const sockaddr_in& address() const { return address_; }

 private:
  int socket_;
  sockaddr_in address_{};
};

}  // namespace ringside::testing
