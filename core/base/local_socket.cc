#include "core/base/local_socket.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <thread>

#include "core/base/error.h"
#include "core/base/seconds_now.h"

namespace ringside {
namespace {

constexpr int most_waiting = 64;
constexpr auto accept_poll = std::chrono::milliseconds(20);

/// A name that begins with a zero byte lies in no folder.
socklen_t fill(sockaddr_un& address, const std::string& name) {
  address = {};
  address.sun_family = AF_UNIX;
  const std::size_t length = std::min(name.size(), sizeof address.sun_path - 1);
  std::memcpy(address.sun_path + 1, name.data(), length);
  return static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + length);
}

int new_socket(int flags) {
  const int made = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | flags, 0);
  if (made < 0) throw Error("cannot make a socket: {}", std::strerror(errno));
  return made;
}

bool is_of_this_user(int socket) {
  ucred other{};
  socklen_t size = sizeof other;
  return getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &other, &size) == 0 && other.uid == geteuid();
}

/// The space in which an open file travels beside one byte.
struct Envelope {
  Envelope() {
    message.msg_iov = &content;
    message.msg_iovlen = 1;
  }
  char byte = 0;
  iovec content{&byte, 1};
  alignas(cmsghdr) char space[CMSG_SPACE(sizeof(int))] = {};
  msghdr message{};
};

}  // namespace

LocalListener::LocalListener(const std::string& name) : socket_(new_socket(SOCK_NONBLOCK)) {
  sockaddr_un address;
  const socklen_t length = fill(address, name);
  if (bind(socket_, reinterpret_cast<const sockaddr*>(&address), length) == 0 &&
      listen(socket_, most_waiting) == 0)
    return;
  const std::string cause = std::strerror(errno);
  close(socket_);
  throw Error("cannot listen for processes of this host: {}", cause);
}

LocalListener::~LocalListener() { close(socket_); }

std::optional<int> LocalListener::accept() {
  for (int made; (made = accept4(socket_, nullptr, nullptr, SOCK_CLOEXEC)) >= 0; close(made))
    if (is_of_this_user(made)) return made;
  return {};
}

int connect_to(const std::string& name, double timeout_s) {
  sockaddr_un address;
  const socklen_t length = fill(address, name);
  const double end = seconds_now() + timeout_s;
  const int made = new_socket(0);
  while (connect(made, reinterpret_cast<const sockaddr*>(&address), length) != 0) {
    const std::string cause = std::strerror(errno);
    const bool hopeless = errno != ECONNREFUSED && errno != EINTR && errno != EAGAIN;
    if (hopeless || seconds_now() > end) {
      close(made);
      throw Error("no process of this host listens for this one: {}", cause);
    }
    std::this_thread::sleep_for(accept_poll);
  }
  if (is_of_this_user(made)) return made;
  close(made);
  throw Error("the process that listens for this one is another user's");
}

bool has_news(int file) {
  pollfd watched{file, POLLIN, 0};
  return poll(&watched, 1, 0) > 0;
}

bool send_file(int socket, int file) {
  Envelope out;
  if (file >= 0) {
    out.message.msg_control = out.space;
    out.message.msg_controllen = sizeof out.space;
    cmsghdr* header = CMSG_FIRSTHDR(&out.message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof file);
    std::memcpy(CMSG_DATA(header), &file, sizeof file);
  }
  return sendmsg(socket, &out.message, MSG_NOSIGNAL) == 1;
}

int receive_file(int socket) {
  Envelope in;
  in.message.msg_control = in.space;
  in.message.msg_controllen = sizeof in.space;
  if (recvmsg(socket, &in.message, MSG_CMSG_CLOEXEC) != 1) return -1;
  const cmsghdr* header = CMSG_FIRSTHDR(&in.message);
  if (!header || header->cmsg_type != SCM_RIGHTS) return -1;
  int file = -1;
  std::memcpy(&file, CMSG_DATA(header), sizeof file);
  return file;
}

}  // namespace ringside
