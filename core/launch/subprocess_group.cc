#include "core/launch/subprocess_group.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <ctime>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <thread>
#include <utility>

#include "core/base/seconds_now.h"
#include "core/launch/process_end.h"

namespace ringside {
namespace {

constexpr double grace_s = 2;    // from SIGTERM to SIGKILL
constexpr double hearing_s = 1;  // from the failure of a program to the end of the others
constexpr double longest_end_s = 5;
constexpr std::size_t longest_words = 400;

// ---- The keeper's process. Its standard output and error are a pipe of its starter.

/// The processes below this one, with those whose parents have ended: a subreaper inherits them.
std::vector<pid_t> children() {
  std::vector<pid_t> out;
  std::ifstream list("/proc/thread-self/children");
  for (pid_t child = 0; list >> child;) out.push_back(child);
  return out;
}

void signal_children(int number) {
  for (const pid_t child : children()) kill(child, number);
}

/// Reaps what has ended, and removes it from `programs`. Returns false if there are no children.
/// Sets `failure` to the first status that is not 0.
bool reap(std::vector<pid_t>& programs, int& failure) {
  for (;;) {
    int status = 0;
    const pid_t ended = waitpid(-1, &status, WNOHANG);
    if (ended == 0) return true;
    if (ended < 0 && errno != EINTR) return false;
    if (ended > 0) std::erase(programs, ended);
    if (ended > 0 && failure == 0)
      failure = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }
}

/// Blocks until one of the `signals`, which are blocked, comes; at most so many seconds.
int next_signal(const sigset_t& signals, double timeout_s) {
  const timespec limit{static_cast<time_t>(timeout_s),
                       static_cast<long>(1e9 * (timeout_s - static_cast<int>(timeout_s)))};
  return sigtimedwait(&signals, nullptr, &limit);
}

pid_t start(const CommandLine& command) {
  const pid_t keeper = getpid(), process = fork();
  if (process < 0) fmt::print(stderr, "no process: {}\n", std::strerror(errno));
  if (process != 0) return process;
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (getppid() != keeper) _exit(1);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  std::vector<char*> argv;
  for (const std::string& word : command) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  execvp(argv[0], argv.data());
  fmt::print(stderr, "{}: {}\n", command[0], std::strerror(errno));
  _exit(127);
}

}  // namespace

int keep(const std::vector<std::string>& words) {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGCHLD);
  sigprocmask(SIG_BLOCK, &signals, nullptr);
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  int failure = 0;
  std::vector<pid_t> programs;
  for (const auto& program : nlohmann::json::parse(words.at(1)).get<std::vector<CommandLine>>())
    if (const pid_t started = start(program); started > 0)
      programs.push_back(started);
    else
      failure = 1;
  bool left = true, told = false;
  for (; left && failure == 0 && !told; left = reap(programs, failure))
    told = next_signal(signals, 3600) == SIGTERM;
  // A bench first hears whose connection has ended, and does not take the end of another for it.
  for (const double end = seconds_now() + hearing_s;
       !programs.empty() && !told && seconds_now() < end; left = reap(programs, failure))
    told = next_signal(signals, 0.1) == SIGTERM;
  if (left) signal_children(SIGTERM);
  for (const double end = seconds_now() + grace_s; left && seconds_now() < end;
       left = reap(programs, failure))
    next_signal(signals, 0.1);
  for (; left; left = reap(programs, failure)) {
    signal_children(SIGKILL);
    next_signal(signals, 0.01);
  }
  std::error_code ignored;
  std::filesystem::remove_all(words.at(0), ignored);
  return failure;
}

SubprocessGroup::SubprocessGroup(const RankProgram& keeper,
                                 const std::vector<CommandLine>& programs,
                                 std::filesystem::path folder)
    : folder_(std::move(folder)) {
  const int nothing = open("/dev/null", O_RDONLY | O_CLOEXEC);
  try {
    keeper_.emplace(programs[0][0],
                    std::vector<std::string>{keeper.file, keep_command_name, folder_.string(),
                                             nlohmann::json(programs).dump()},
                    keeper.environment, ChildOptions{.input = nothing, .own_group = true});
  } catch (...) {
    close(nothing);
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
    throw;
  }
  close(nothing);
}

SubprocessGroup::~SubprocessGroup() {
  for (end(); !wait(1);) end();  // a signal before the keeper blocks it may be lost
  std::error_code ignored;
  std::filesystem::remove_all(folder_, ignored);  // if the keeper was killed
}

bool SubprocessGroup::wait(double timeout_s) {
  constexpr auto nap = std::chrono::milliseconds(5);
  bool ended = keeper_->reap();
  for (const double end = seconds_now() + timeout_s; !ended && seconds_now() < end;) {
    read();
    std::this_thread::sleep_for(nap);
    ended = keeper_->reap();
  }
  return ended;
}

std::string SubprocessGroup::read() {
  std::string text = keeper_->output().read();
  said_ += text;
  if (said_.size() > 4 * longest_words) said_.erase(0, said_.size() - 4 * longest_words);
  return text;
}

std::string SubprocessGroup::cause_of_end() {
  wait(longest_end_s);
  read();
  std::string out, before;
  std::istringstream lines(said_);
  for (std::string line; std::getline(lines, line);) {
    // Launchers frame what they say, and every rank may say the same.
    const std::size_t first = line.find_first_not_of("-=# \t");
    const std::size_t last = line.find_last_not_of(" \t\r");
    if (first == std::string::npos) continue;
    line = line.substr(first, last - first + 1);
    if (line != before) out += (out.empty() ? "" : "; ") + line;
    before = line;
  }
  if (out.size() > longest_words) out = out.substr(0, longest_words) + " ...";
  if (!out.empty()) return out;
  if (!keeper_->status()) return "its program says nothing";
  return "its program says nothing and ends with " + words_for_end(*keeper_->status());
}

}  // namespace ringside
