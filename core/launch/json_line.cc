#include "core/launch/json_line.h"

#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <nlohmann/json.hpp>

namespace ringside {

JsonLine::~JsonLine() { close(socket_); }

bool JsonLine::send(const nlohmann::json& value) {
  const std::string line = value.dump() + '\n';
  std::lock_guard lock(send_mutex_);
  for (std::size_t sent = 0; sent < line.size();) {
    const ssize_t n = ::send(socket_, line.data() + sent, line.size() - sent, MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    sent += static_cast<std::size_t>(n);
  }
  return true;
}

std::optional<std::vector<nlohmann::json>> JsonLine::receive() {
  if (received_.size() > longest_line_) return std::nullopt;  // begins with a line too long
  char chunk[64 * 1024];
  ssize_t n;
  do {
    n = recv(socket_, chunk, sizeof chunk, 0);
  } while (n < 0 && errno == EINTR);
  if (n <= 0) return std::nullopt;
  received_.append(chunk, static_cast<std::size_t>(n));

  std::vector<nlohmann::json> values;
  std::size_t begin = 0;
  for (std::size_t end; (end = received_.find('\n', begin)) != std::string::npos; begin = end + 1) {
    if (end - begin > longest_line_) break;
    values.push_back(nlohmann::json::parse(received_.begin() + static_cast<std::ptrdiff_t>(begin),
                                           received_.begin() + static_cast<std::ptrdiff_t>(end)));
  }
  received_.erase(0, begin);
  if (values.empty() && received_.size() > longest_line_) return std::nullopt;
  return values;
}

void JsonLine::stop_receiving() { shutdown(socket_, SHUT_RD); }

}  // namespace ringside
