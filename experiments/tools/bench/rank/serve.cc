#include "experiments/tools/bench/rank/serve.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <sstream>

#include "core/base/error.h"
#include "core/base/error_text.h"
#include "core/base/seconds_now.h"

namespace ringside::tools::bench {
namespace {

/// The stream to the bench, whose lines are short: one at a time is under way.
class Lines {
 public:
  explicit Lines(int socket) : socket_(socket) {}
  ~Lines() { close(socket_); }
  Lines(const Lines&) = delete;
  Lines& operator=(const Lines&) = delete;

  /// Waits a tenth of a second; returns whether there is something to receive.
  bool wait() const {
    pollfd ready{socket_, POLLIN, 0};
    return poll(&ready, 1, 100) > 0;
  }

  /// Returns false at the end of the stream.
  bool receive(std::string& line) {
    line.clear();
    for (char c = 0;;) {
      const ssize_t n = read(socket_, &c, 1);
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) return false;
      if (c == '\n') return true;
      line += c;
    }
  }

  void send(std::string line) {
    std::replace(line.begin(), line.end(), '\n', ' ');
    line += '\n';
    for (std::size_t sent = 0; sent < line.size();) {
      const ssize_t n = ::send(socket_, line.data() + sent, line.size() - sent, MSG_NOSIGNAL);
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) return;  // the bench has ended, which the next receive() notices
      sent += static_cast<std::size_t>(n);
    }
  }

 private:
  int socket_;
};

std::string turn(BenchRank& rank, const std::string& way, int calls) {
  std::string times = "times";
  if (!rank.is_timed()) return times;
  rank.begin_turn(way);
  for (int call = 0; call < calls; ++call) {
    rank.fill();
    rank.meet();
    const double begin = seconds_now();
    rank.call(way);
    const double end = seconds_now();
    rank.meet();
    times += fmt::format(" {:.9f} {:.9f}", begin, end);
  }
  return times;
}

std::string answer(BenchRank& rank, const std::string& line) {
  std::istringstream words(line);
  std::string command, name;
  words >> command;
  if (std::int64_t number = 0; command == "array" && words >> name >> number) {
    rank.make_arrays(name, number);
    return "ready";
  } else if (command == "turn" && words >> name >> number) {
    return turn(rank, name, static_cast<int>(number));
  }
  if (command == "check") return fmt::format("wrong {}", rank.is_timed() ? rank.count_wrong() : 0);
  throw Error("unknown command '{}'", line);
}

}  // namespace

bool serve(int socket, int rank, BenchRank& served) {
  Lines lines(socket);
  lines.send(fmt::format("hello {} {}", rank, served.note()));
  try {
    const bool looks = !served.is_timed();
    for (std::string line;; lines.send(answer(served, line))) {
      while (looks && !lines.wait()) served.look();
      if (!lines.receive(line)) return true;
    }
  } catch (const std::exception& error) {
    lines.send("error " + error_text(error));
    return false;
  }
}

int connect_to_bench(const std::string& name) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (name.size() + 1 > sizeof address.sun_path) throw Error("no socket is named '{}'", name);
  std::copy(name.begin(), name.end(), address.sun_path + 1);  // after a 0: a name without a file
  const int out = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  if (out < 0 || connect(out, reinterpret_cast<const sockaddr*>(&address), length) != 0)
    throw Error("no bench at '{}': {}; this program is started by `ringside bench comm --beside`",
                name, std::strerror(errno));
  return out;
}

}  // namespace ringside::tools::bench
