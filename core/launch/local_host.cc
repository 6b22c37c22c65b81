#include "core/launch/local_host.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>

#include "core/base/error.h"
#include "core/base/explain.h"
#include "core/launch/json_line.h"
#include "core/launch/other_program.h"
#include "core/launch/rank_output.h"

namespace ringside {
namespace {

/// Pointers into `words`, as execve() takes them.
std::vector<char*> pointers(std::vector<std::string>& words) {
  std::vector<char*> out;
  for (auto& word : words) out.push_back(word.data());
  out.push_back(nullptr);
  return out;
}

/// `first` without the variables that `own` names, then the variables of `own` that have a value.
/// GLIBC_TUNABLES is a list, to which the entries of `first` are added: of two settings of one
/// tunable, that of the user's environment counts.
std::vector<std::string> overridden(const std::vector<std::string>& first,
                                    const std::vector<std::string>& own) {
  constexpr std::string_view tunables = "GLIBC_TUNABLES=";
  std::vector<std::string> out;
  const auto name = [](const std::string& variable) {
    return variable.substr(0, variable.find('='));
  };
  for (const std::string& variable : first)
    if (std::none_of(own.begin(), own.end(),
                     [&](const std::string& other) { return name(other) == name(variable); }))
      out.push_back(variable);
  for (const std::string& variable : own) {
    if (variable.find('=') == std::string::npos) continue;
    out.push_back(variable);
    if (!variable.starts_with(tunables)) continue;
    for (const std::string& other : first)
      if (other.starts_with(tunables)) out.back() += ":" + other.substr(tunables.size());
  }
  return out;
}

/// The error for a call that the system refused; errno still has the system's error number.
Error refused(std::string_view what) {
  const std::string cause = std::strerror(errno);
  return Error("cannot {} a rank: {}{}", what, cause, limit_hint(cause));
}

bool can_be_read(int file) {
  pollfd watched{file, POLLIN, 0};
  return file >= 0 && poll(&watched, 1, 0) > 0;
}

}  // namespace

/// A rank as its launcher sees it. Its destructor leaves no process behind.
class LocalHost::RankProcess {
 public:
  RankProcess(std::vector<std::string> words, std::vector<std::string> variables);
  ~RankProcess() {
    if (pid_ <= 0) return;
    kill(pid_, SIGKILL);
    int status = 0;
    waitpid(pid_, &status, 0);
  }
  RankProcess(const RankProcess&) = delete;
  RankProcess& operator=(const RankProcess&) = delete;

  bool connected() const { return line_ != nullptr; }
  JsonLine& line() { return *line_; }
  std::vector<int> files() const { return {line_ ? line_->socket() : -1, output_.file()}; }
  void signal(int number) {
    if (pid_ > 0) kill(pid_, number);
  }

  /// Tells what the rank has said and written, and, once the rank's messages have been read to
  /// their end, how its process ended. Returns whether the process has ended.
  bool read(int rank, RankEvents& events) {
    while (line_ && can_be_read(line_->socket())) {
      const auto values = line_->receive();
      if (!values) line_.reset();
      for (const auto& value : values.value_or(std::vector<nlohmann::json>()))
        events.line(rank, value);
    }
    const bool ended = !line_ && reap();
    if (const std::string text = output_.read(); !text.empty()) events.output(rank, text);
    if (ended) events.ended(rank, {status_, output_.last_line(), ""});
    return ended;
  }

 private:
  /// Collects the process's exit status if the process has ended; returns whether it has.
  bool reap() {
    int status = 0;
    const pid_t ended = waitpid(pid_, &status, WNOHANG);
    if (ended != pid_ && (ended >= 0 || errno != ECHILD)) return false;
    if (ended == pid_) status_ = status;
    pid_ = 0;
    return true;
  }

  pid_t pid_ = 0;
  std::optional<int> status_;
  std::unique_ptr<JsonLine> line_;
  RankOutput output_;
};

LocalHost::RankProcess::RankProcess(std::vector<std::string> words,
                                    std::vector<std::string> variables) {
  int sockets[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets) != 0)
    throw refused("make a socket for");
  line_ = std::make_unique<JsonLine>(sockets[0]);

  words.push_back(std::to_string(sockets[1]));
  const std::vector<char*> argv = pointers(words);
  const std::vector<char*> envp = pointers(variables);

  const pid_t launcher = getpid();
  pid_ = fork();
  if (pid_ == 0) {  // only async-signal-safe calls from here on
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != launcher) _exit(1);  // the launcher died before prctl()
    fcntl(sockets[1], F_SETFD, 0);
    output_.become_standard_streams();
    execve(argv[0], argv.data(), envp.data());
    _exit(127);
  }
  const int fork_error = errno;
  close(sockets[1]);
  output_.keep_reading_end();
  errno = fork_error;
  if (pid_ < 0) throw refused("start the process of");
}

LocalHost::LocalHost(RankProgram program) : program_(std::move(program)) {}
LocalHost::~LocalHost() = default;

void LocalHost::start(const RunPlan& plan, int rank) {
  auto variables =
      overridden(program_.environment, plan.ranks.at(static_cast<std::size_t>(rank)).environment);
  auto words = words_of(plan, program_, variables);
  auto& process = ranks_[rank];
  process = std::make_unique<RankProcess>(std::move(words), std::move(variables));
  process->line().send({{"rank", rank}, {"plan", to_json(plan)}});
}

void LocalHost::send(int rank, const nlohmann::json& value) {
  if (const auto found = ranks_.find(rank); found != ranks_.end() && found->second->connected())
    found->second->line().send(value);
}

void LocalHost::signal(int rank, int number) {
  if (const auto found = ranks_.find(rank); found != ranks_.end()) found->second->signal(number);
}

std::vector<int> LocalHost::files() const {
  std::vector<int> out;
  for (const auto& [rank, process] : ranks_)
    for (const int file : process->files()) out.push_back(file);
  return out;
}

bool LocalHost::expects_end() const {
  return std::any_of(ranks_.begin(), ranks_.end(),
                     [](const auto& rank) { return !rank.second->connected(); });
}

void LocalHost::read(RankEvents& events) {
  for (auto rank = ranks_.begin(); rank != ranks_.end();)
    rank = rank->second->read(rank->first, events) ? ranks_.erase(rank) : std::next(rank);
}

}  // namespace ringside
