// JSON values over a stream socket, one a line.
#pragma once

#include <mutex>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ringside {

/// Owns the socket. One thread may receive while other threads send.
class JsonLine {
 public:
  /// A line of more bytes than `longest_line`, its end left out, ends the stream.
  explicit JsonLine(int socket, std::size_t longest_line = std::string::npos)
      : socket_(socket), longest_line_(longest_line) {}
  ~JsonLine();
  JsonLine(const JsonLine&) = delete;
  JsonLine& operator=(const JsonLine&) = delete;

  /// Removes the limit on the length of lines.
  void lift_limit() { longest_line_ = std::string::npos; }

  int socket() const { return socket_; }
  /// Blocks until the system has taken the value; returns false if the other end is gone.
  bool send(const nlohmann::json& value);
  /// Sends a value of a few bytes, unless that would block or another thread is sending.
  void send_at_once(const nlohmann::json& value);
  /// Blocks until data or the end of the stream arrives. Returns the values that have arrived
  /// completely (an empty list if only a part of a value has arrived), or std::nullopt at the end
  /// of the stream. Values before a line that is too long are returned first. Throws
  /// nlohmann::json::exception for a line that is no JSON.
  std::optional<std::vector<nlohmann::json>> receive();
  /// Ends a receive() under way in another thread, and every later receive().
  void stop_receiving();
  /// Ends the stream for the other end, once it has received all that was sent.
  void stop_sending();

 private:
  bool send_all(std::string_view text);

  int socket_;
  std::size_t longest_line_;
  std::mutex send_mutex_;
  std::string received_;
};

}  // namespace ringside
