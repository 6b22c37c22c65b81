// JSON values, one a line, over a stream socket.
#pragma once

#include <mutex>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

namespace ringside {

/// Owns the socket. One thread may receive while others send.
class JsonLine {
 public:
  explicit JsonLine(int socket) : socket_(socket) {}
  ~JsonLine();
  JsonLine(const JsonLine&) = delete;
  JsonLine& operator=(const JsonLine&) = delete;

  int socket() const { return socket_; }
  /// Blocks until the value is on its way; false if the other end is gone.
  bool send(const nlohmann::json& value);
  /// Blocks until there is something to read, then returns the whole values that have arrived
  /// (none if only a part of one did); nothing at the end of the stream.
  std::optional<std::vector<nlohmann::json>> receive();
  /// Ends a receive() under way in another thread, and all later ones.
  void stop_receiving();

 private:
  int socket_;
  std::mutex send_mutex_;
  std::string received_;
};

}  // namespace ringside
