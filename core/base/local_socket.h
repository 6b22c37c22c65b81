// Local sockets between the processes of one user on one host, with names outside the file system.
#pragma once

#include <optional>
#include <string>

namespace ringside {

/// Listens under a name. Nothing is left of it when the process ends.
class LocalListener {
 public:
  /// Throws Error, for instance if the name is taken.
  explicit LocalListener(const std::string& name);
  ~LocalListener();
  LocalListener(const LocalListener&) = delete;
  LocalListener& operator=(const LocalListener&) = delete;

  int file() const { return socket_; }
  /// The next connection, whose socket the caller owns; none if none has come. Connections of other
  /// users are closed.
  std::optional<int> accept();

 private:
  int socket_;
};

/// Connects, and tries again while there is no listener. The caller owns the socket. Throws Error
/// after `timeout_s`.
int connect_to(const std::string& name, double timeout_s);

/// Whether a file can be read, or has come to its end; does not block.
bool has_news(int file);

/// Sends an open file, or a note that there is none (negative). Returns false if the other end is
/// gone.
bool send_file(int socket, int file);
/// Blocks until a file or such a note arrives. The caller owns the file; negative if there is none,
/// or if the other end is gone.
int receive_file(int socket);

}  // namespace ringside
