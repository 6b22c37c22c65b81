#include "core/launch/rank_output.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstring>
#include <utility>

#include "core/base/error.h"
#include "core/base/error_text.h"

namespace ringside {
namespace {

constexpr std::size_t longest_line = 300, most_at_once = 1 << 20;

}  // namespace

RankOutput::RankOutput() {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0)
    throw Error("cannot make a pipe for a rank: {}{}", std::strerror(errno),
                limit_hint(std::strerror(errno)));
  file_ = ends[0];
  writing_end_ = ends[1];
  fcntl(file_, F_SETFL, O_NONBLOCK);
}

RankOutput::~RankOutput() {
  for (const int end : {file_, writing_end_})
    if (end >= 0) close(end);
}

void RankOutput::become_standard_streams() const {
  dup2(writing_end_, STDOUT_FILENO);
  dup2(writing_end_, STDERR_FILENO);
}

void RankOutput::keep_reading_end() { close(std::exchange(writing_end_, -1)); }

std::string RankOutput::read() {
  std::string text;
  char chunk[4096];
  while (file_ >= 0 && text.size() < most_at_once) {
    const ssize_t count = ::read(file_, chunk, sizeof chunk);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && errno == EAGAIN) break;
    if (count > 0)
      text.append(chunk, static_cast<std::size_t>(count));
    else
      close(std::exchange(file_, -1));
  }
  remember(text);
  if (file_ < 0) remember("\n");  // the last line may lack its line break
  return text;
}

void RankOutput::remember(const std::string& text) {
  for (const char c : text) {
    if (c != '\n') {
      if (line_.size() < longest_line) line_ += c;
      continue;
    }
    if (!line_.empty()) last_line_ = line_;
    line_.clear();
  }
}

}  // namespace ringside
