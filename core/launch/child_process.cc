#include "core/launch/child_process.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstring>
#include <utility>

#include "core/base/error.h"
#include "core/base/error_text.h"

namespace ringside {
namespace {

constexpr std::size_t longest_line = 300, most_at_once = 1 << 20;

/// Pointers into `words`, as execve() takes them.
std::vector<char*> pointers(std::vector<std::string>& words) {
  std::vector<char*> out;
  for (auto& word : words) out.push_back(word.data());
  out.push_back(nullptr);
  return out;
}

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

ChildProcess::ChildProcess(const std::string& what, std::vector<std::string> words,
                           std::vector<std::string> variables, const ChildOptions& options)
    : own_group_(options.own_group) {
  const std::vector<char*> argv = pointers(words);
  const std::vector<char*> envp = pointers(variables);

  const pid_t launcher = getpid();
  pid_ = fork();
  if (pid_ == 0) {  // only async-signal-safe calls from here on
    prctl(PR_SET_PDEATHSIG, own_group_ ? SIGTERM : SIGKILL);
    if (getppid() != launcher) _exit(1);  // the launcher died before prctl()
    if (own_group_) setpgid(0, 0);
    for (const int file : options.inherited) fcntl(file, F_SETFD, 0);
    if (options.input >= 0) dup2(options.input, STDIN_FILENO);
    output_.become_standard_streams();
    execve(argv[0], argv.data(), envp.data());
    _exit(127);
  }
  const std::string cause = std::strerror(errno);
  output_.keep_reading_end();
  if (pid_ < 0) throw Error("cannot start the process of {}: {}{}", what, cause, limit_hint(cause));
}

ChildProcess::~ChildProcess() {
  if (pid_ <= 0) return;
  kill(pid_, SIGKILL);
  siginfo_t ended{};
  if (own_group_) waitid(P_PID, static_cast<id_t>(pid_), &ended, WEXITED | WNOWAIT);
  end_group();
  int status = 0;
  waitpid(pid_, &status, 0);
}

void ChildProcess::end_group() const {
  if (own_group_) kill(-pid_, SIGKILL);
}

void ChildProcess::signal(int number) const {
  if (pid_ > 0) kill(pid_, number);
}

std::optional<bool> ChildProcess::stood() {
  siginfo_t changed{};
  if (pid_ <= 0 ||
      waitid(P_PID, static_cast<id_t>(pid_), &changed, WSTOPPED | WCONTINUED | WNOHANG) != 0 ||
      changed.si_pid != pid_)
    return {};
  return changed.si_code != CLD_CONTINUED;
}

bool ChildProcess::reap() {
  if (pid_ <= 0) return true;
  if (own_group_) {
    siginfo_t ended{};
    if (waitid(P_PID, static_cast<id_t>(pid_), &ended, WEXITED | WNOWAIT | WNOHANG) == 0 &&
        ended.si_pid == pid_)
      end_group();
  }
  int status = 0;
  const pid_t ended = waitpid(pid_, &status, WNOHANG);
  if (ended != pid_ && (ended >= 0 || errno != ECHILD)) return false;
  if (ended == pid_) status_ = status;
  pid_ = 0;
  return true;
}

}  // namespace ringside
