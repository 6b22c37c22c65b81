#include "experiments/runner/hosts/peer_credentials.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <sys/socket.h>

#include <fstream>
#include <sstream>
#include <string>

namespace ringside {
namespace {

/// The system's names of states.
constexpr const char *established = "01", *listening = "0A";

/// As the system writes addresses: the four bytes as a number of this machine, then the port.
std::string text_of(const sockaddr_in& address) {
  return fmt::format("{:08X}:{:04X}", address.sin_addr.s_addr, ntohs(address.sin_port));
}

/// The owner of the socket with these addresses and this state. Columns: number, own address, the
/// other's address, state, queues, timer, retransmissions, user.
std::optional<uid_t> user_of(const std::string& own, const std::string& other,
                             const std::string& state) {
  std::ifstream table("/proc/net/tcp");
  std::string line;
  std::getline(table, line);
  while (std::getline(table, line)) {
    std::istringstream words(line);
    std::string number, from, to, is, queues, timer, again;
    uid_t user = 0;
    if (words >> number >> from >> to >> is >> queues >> timer >> again >> user && from == own &&
        to == other && is == state)
      return user;
  }
  return {};
}

}  // namespace

std::optional<uid_t> user_of_peer(int socket) {
  sockaddr_in own{}, other{};
  socklen_t size = sizeof own;
  if (getsockname(socket, reinterpret_cast<sockaddr*>(&own), &size) != 0) return {};
  size = sizeof other;
  if (getpeername(socket, reinterpret_cast<sockaddr*>(&other), &size) != 0) return {};
  return user_of(text_of(other), text_of(own), established);
}

std::optional<uid_t> user_of_listener(const sockaddr_in& address) {
  return user_of(text_of(address), "00000000:0000", listening);
}

}  // namespace ringside
