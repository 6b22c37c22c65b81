#include "core/base/loopback.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "core/base/error.h"

namespace ringside {

void require_loopback(const std::string& name, const std::string& address) {
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_port = htons(9);
  if (inet_pton(AF_INET, address.c_str(), &to.sin_addr) != 1) return;
  // Nothing is sent: the system only looks for a way.
  const int socket = ::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (socket < 0) return;
  const bool reached = connect(socket, reinterpret_cast<const sockaddr*>(&to), sizeof to) == 0;
  const int cause = errno;
  close(socket);
  if (!reached)
    throw Error(
        "{}: no process can connect to {} ({}): the loopback interface is down; set it up with "
        "`ip link set lo up`",
        name, address, std::strerror(cause));
}

}  // namespace ringside
