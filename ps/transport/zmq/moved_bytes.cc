#include "ps/transport/zmq/moved_bytes.h"

#include <linux/tcp.h>
#include <netinet/in.h>

#include <cstring>

namespace ringside::ps {
namespace {

/// Whether the file is a connection; then `out` has the address of its other end.
bool peer_of(int file, sockaddr_storage& out) {
  std::memset(&out, 0, sizeof out);
  socklen_t length = sizeof out;
  return getpeername(file, reinterpret_cast<sockaddr*>(&out), &length) == 0;
}

}  // namespace

MovedBytes::MovedBytes(int file) : file_(file) {
  if (file_ >= 0 && !peer_of(file_, peer_)) file_ = -1;
}

std::int64_t MovedBytes::count() const {
  sockaddr_storage now;
  if (file_ < 0 || !peer_of(file_, now) || std::memcmp(&now, &peer_, sizeof now) != 0) return 0;
  tcp_info info{};
  socklen_t length = sizeof info;
  if (getsockopt(file_, IPPROTO_TCP, TCP_INFO, &info, &length) != 0) return 0;
  return static_cast<std::int64_t>(info.tcpi_bytes_received + info.tcpi_bytes_acked);
}

}  // namespace ringside::ps
