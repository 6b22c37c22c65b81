#include "experiments/tools/watch/follow.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "core/base/error.h"

namespace ringside {

EventFollower::~EventFollower() { close_file(); }

void EventFollower::close_file() {
  if (file_ >= 0) close(file_);
  file_ = -1;
  number_ = 0;
  rest_.clear();
}

bool EventFollower::is_replaced() const {
  struct stat ours {
  }, there{};
  if (stat(path_.c_str(), &there) != 0 || fstat(file_, &ours) != 0) return false;
  return ours.st_ino != there.st_ino || ours.st_dev != there.st_dev;
}

void EventFollower::read_to_the_end(std::vector<FollowedLine>& out) {
  char chunk[1 << 16];
  for (;;) {
    const ssize_t count = ::read(file_, chunk, sizeof chunk);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) throw Error("{}: cannot be read: {}", path_.string(), std::strerror(errno));
    if (count == 0) break;
    rest_.append(chunk, static_cast<std::size_t>(count));
  }
  std::size_t begin = 0;
  for (std::size_t end; (end = rest_.find('\n', begin)) != std::string::npos; begin = end + 1) {
    ++number_;
    std::string line = rest_.substr(begin, end + 1 - begin);
    try {
      auto event = event_of_line(line);
      out.push_back({std::move(line), std::move(event)});
    } catch (const std::exception& error) {
      complaints_.push_back(
          fmt::format("{}:{}: left out: {}", path_.string(), number_, error.what()));
    }
  }
  rest_.erase(0, begin);
}

std::vector<FollowedLine> EventFollower::read() {
  std::vector<FollowedLine> out;
  if (file_ >= 0) {
    const bool replaced = is_replaced();
    read_to_the_end(out);
    if (!replaced) return out;
    close_file();
  }
  file_ = open(path_.c_str(), O_RDONLY | O_CLOEXEC);
  if (file_ < 0 && errno != ENOENT)
    throw Error("{}: cannot be read: {}", path_.string(), std::strerror(errno));
  if (file_ >= 0) read_to_the_end(out);
  return out;
}

std::vector<std::string> EventFollower::take_complaints() { return std::exchange(complaints_, {}); }

}  // namespace ringside
