#include "core/base/json_line.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <nlohmann/json.hpp>

namespace ringside {

JsonLine::~JsonLine() {
  if (socket_ >= 0) close(socket_);
}

bool JsonLine::send(const nlohmann::json& value) {
  const std::string line = value.dump() + '\n';
  std::lock_guard lock(send_mutex_);
  return send_all(line);
}

void JsonLine::send_at_once(const nlohmann::json& value) {
  const std::string line = value.dump() + '\n';
  const std::unique_lock lock(send_mutex_, std::try_to_lock);
  // A socket can be written while much of its buffer is free: then there is room for the line.
  pollfd room{socket_, POLLOUT, 0};
  if (lock && poll(&room, 1, 0) == 1 && (room.revents & POLLOUT) != 0) send_all(line);
}

bool JsonLine::send_all(std::string_view text) {
  while (!text.empty()) {
    const ssize_t n = ::send(socket_, text.data(), text.size(), MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    text.remove_prefix(static_cast<std::size_t>(n));
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
  std::size_t begin = 0, unsearched = received_.size();
  received_.append(chunk, static_cast<std::size_t>(n));

  std::vector<nlohmann::json> values;
  for (std::size_t end; (end = received_.find('\n', unsearched)) != std::string::npos;
       unsearched = begin = end + 1) {
    if (end - begin > longest_line_) break;
    values.push_back(nlohmann::json::parse(received_.begin() + static_cast<std::ptrdiff_t>(begin),
                                           received_.begin() + static_cast<std::ptrdiff_t>(end)));
  }
  received_.erase(0, begin);
  if (values.empty() && received_.size() > longest_line_) return std::nullopt;
  return values;
}

void JsonLine::stop_receiving() { shutdown(socket_, SHUT_RD); }

void JsonLine::stop_sending() { shutdown(socket_, SHUT_WR); }

}  // namespace ringside
