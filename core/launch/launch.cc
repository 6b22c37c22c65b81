#include "core/launch/launch.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <map>
#include <nlohmann/json.hpp>

#include "core/base/error.h"
#include "core/base/explain.h"
#include "core/launch/json_line.h"
#include "core/launch/other_program.h"
#include "core/launch/process_end.h"
#include "core/launch/rank_output.h"

namespace ringside {
namespace {

using SteadyTime = std::chrono::steady_clock::time_point;

constexpr int poll_ms = 100, reap_ms = 1;
constexpr std::chrono::seconds grace(2);  // from SIGTERM to SIGKILL

/// A rank as its launcher sees it. Its destructor leaves no process behind.
class RankProcess {
 public:
  RankProcess(std::vector<std::string> words, std::vector<std::string> variables);
  ~RankProcess() {
    if (!running()) return;
    kill(pid_, SIGKILL);
    waitpid(pid_, &status_, 0);
  }
  RankProcess(const RankProcess&) = delete;
  RankProcess& operator=(const RankProcess&) = delete;

  bool running() const { return pid_ > 0; }
  bool connected() const { return line_ != nullptr; }
  JsonLine& line() { return *line_; }
  RankOutput& output() { return output_; }
  void disconnect() { line_.reset(); }
  void signal(int number) {
    if (running()) kill(pid_, number);
  }
  /// Collects the process's exit status if the process has ended.
  void reap() {
    if (!running()) return;
    const pid_t ended = waitpid(pid_, &status_, WNOHANG);
    known_ = ended == pid_;
    if (known_ || (ended < 0 && errno == ECHILD)) pid_ = 0;
  }
  /// Whether the rank has ended by a signal other than `number`.
  bool killed_but_by(int number) const {
    return known_ && WIFSIGNALED(status_) && WTERMSIG(status_) != number;
  }
  /// Whether the rank has ended with exit code 0.
  bool ended_well() const { return known_ && WIFEXITED(status_) && WEXITSTATUS(status_) == 0; }
  std::string exit_text() const {
    if (!known_)
      return "ended; its exit status is unknown, because something other than the launcher "
             "collected it";
    const std::string why = words_for_end(status_);
    return WIFSIGNALED(status_) ? "was killed by " + why
                                : "ended with " + why + " before its work was done";
  }
  /// What may explain the rank's end: the last line that the rank wrote, and a limit of the
  /// system (`ulimit`, memory) that the rank may have reached.
  std::string explanation() const {
    const std::string& line = output_.last_line();
    const int signal = known_ && WIFSIGNALED(status_) ? WTERMSIG(status_) : 0;
    return (line.empty() ? "" : fmt::format("; the last line that it wrote: {}", line)) +
           limit_hint(line, signal);
  }

 private:
  pid_t pid_ = 0;
  int status_ = 0;
  bool known_ = false;  // whether status_ is the exit status of the ended process
  std::unique_ptr<JsonLine> line_;
  RankOutput output_;
};

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

RankProcess::RankProcess(std::vector<std::string> words, std::vector<std::string> variables) {
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

/// One run: all its ranks, their store, and the first failure.
class Launch {
 public:
  Launch(const RunPlan& plan, const RankProgram& program,
         const std::function<void(int, const nlohmann::json&)>& on_progress)
      : plan_(plan), on_output_(program.on_output), on_progress_(on_progress) {
    result_.records.resize(plan.ranks.size());
    last_step_.resize(plan.ranks.size());
    const std::size_t processes = in_one_process(plan) ? 1 : plan.ranks.size();
    for (std::size_t r = 0; r < processes; ++r) {
      auto variables = overridden(program.environment, plan.ranks[r].environment);
      auto words = words_of(plan, program, variables);
      ranks_.push_back(std::make_unique<RankProcess>(std::move(words), std::move(variables)));
      ranks_[r]->line().send({{"rank", r}, {"plan", to_json(plan)}});
    }
  }

  LaunchResult run(const std::function<bool()>& interrupted) {
    while (any_running()) {
      if (interrupted() && !result_.interrupted) {
        result_.interrupted = true;
        fail("interrupted");
      }
      if (ending_ && std::chrono::steady_clock::now() > *ending_ + grace) {
        forced_ = true;
        for (auto& rank : ranks_) rank->signal(SIGKILL);
      }
      serve_once();
    }
    for (const auto& [key, value] : values_)
      if (key.starts_with(kept_key)) result_.kept.emplace(key.substr(kept_key.size()), value);
    return std::move(result_);
  }

 private:
  bool any_running() const {
    for (const auto& rank : ranks_)
      if (rank->running()) return true;
    return false;
  }

  void serve_once() {
    bool hung_up = false;  // whether a rank has disconnected, and so is about to end
    for (const auto& rank : ranks_) hung_up |= rank->running() && !rank->connected();
    read_all(hung_up ? reap_ms : poll_ms);
    if (!complaints_.empty()) {
      // A rank reports its failure before another rank can fail as a consequence. So when any
      // report has been read, the report of the cause has arrived too. read_all(0) reads it, and
      // the earliest failure is the cause.
      read_all(0);
      fail(complaints_.begin()->second);
    }
    for (std::size_t r = 0; r < ranks_.size(); ++r) {
      RankProcess& rank = *ranks_[r];
      if (rank.connected() || !rank.running()) continue;  // its messages are read to the end first
      rank.reap();
      if (!rank.running()) read_output(r);
      if (!rank.running() && (result_.records[r].is_null() || !rank.ended_well())) judge_end(r);
    }
  }

  /// Fails the run because rank `r` has ended. Other ranks may have noticed this end and reported
  /// failures first. So if something other than this launcher killed rank `r`, the run's error
  /// names the end of rank `r` and not those failures.
  void judge_end(std::size_t r) {
    const std::string why = fmt::format("{} {}{}{}", name(r), ranks_[r]->exit_text(), last_step_[r],
                                        ranks_[r]->explanation());
    if (can_go_on_without(r)) {
      const int worker = plan_.ranks[r].worker;
      result_.lost[worker] = why;
      set(lost_key(worker), why);
      return;
    }
    fail(why);
    if (!explained_ && !forced_ && !result_.interrupted && ranks_[r]->killed_but_by(SIGTERM)) {
      explained_ = true;
      result_.error = why;
    }
  }

  /// Whether rank `r` is a worker that something else than this launcher killed, and that the run
  /// can do without.
  bool can_go_on_without(std::size_t r) const {
    // Worker 0 reports the parameters at the end.
    const bool only_works = plan_.ranks[r].worker > 0 && plan_.ranks[r].server < 0;
    return !ending_ && !plan_.cluster && only_works && ranks_[r]->killed_but_by(SIGTERM) &&
           static_cast<int>(result_.lost.size()) < plan_.expendable;
  }

  void set(const std::string& key, const std::string& text) {
    values_[key] = text;
    for (std::size_t waiting : waiting_[key]) answer(waiting, key);
    waiting_.erase(key);
  }

  /// Reads what ranks have sent, or send within `timeout_ms`.
  void read_all(int timeout_ms) {
    std::vector<pollfd> watched;  // poll() skips entries whose file is negative
    for (const auto& rank : ranks_) {
      watched.push_back({rank->connected() ? rank->line().socket() : -1, POLLIN, 0});
      watched.push_back({rank->output().file(), POLLIN, 0});
    }
    poll(watched.data(), watched.size(), timeout_ms);
    for (std::size_t r = 0; r < ranks_.size(); ++r) {
      if (watched[2 * r].revents != 0) read(r);
      if (watched[2 * r + 1].revents != 0) read_output(r);
    }
  }

  void read_output(std::size_t r) {
    if (const std::string text = ranks_[r]->output().read(); !text.empty()) on_output_(text);
  }

  void read(std::size_t r) {
    const auto values = ranks_[r]->line().receive();
    if (!values) return ranks_[r]->disconnect();
    for (const auto& value : *values) {
      if (value.contains("set")) {
        const auto [key, text] = value["set"].get<std::pair<std::string, std::string>>();
        set(key, text);
      } else if (value.contains("get")) {
        const auto key = value["get"].get<std::string>();
        if (values_.contains(key))
          answer(r, key);
        else
          waiting_[key].push_back(r);
      } else if (value.contains("progress")) {
        if (auto step = value["progress"].find("step"); step != value["progress"].end())
          last_step_[r] = fmt::format(" after step {}", step->get<std::int64_t>());
        on_progress_(static_cast<int>(r), value["progress"]);
      } else if (value.contains("record")) {
        if (in_one_process(plan_))
          result_.records = value["record"].get<std::vector<nlohmann::json>>();
        else
          result_.records[r] = value["record"];
      } else if (value.contains("error")) {
        complaints_.emplace(value.value("time", 0.0),
                            fmt::format("{}: {}", name(r), value["error"].get<std::string>()));
      }
    }
  }

  std::string name(std::size_t r) const {
    return plan_.cluster ? "simulation" : fmt::format("rank {} ({})", r, plan_.ranks[r].role());
  }

  void answer(std::size_t r, const std::string& key) {
    if (ranks_[r]->connected()) ranks_[r]->line().send({{"value", {key, values_[key]}}});
  }

  /// The first failure counts; later failures follow from it.
  void fail(const std::string& why) {
    if (ending_) return;
    result_.error = why;
    ending_ = std::chrono::steady_clock::now();
    for (auto& rank : ranks_) rank->signal(SIGTERM);
  }

  const RunPlan& plan_;
  const std::function<void(const std::string&)>& on_output_;
  const std::function<void(int, const nlohmann::json&)>& on_progress_;
  std::vector<std::unique_ptr<RankProcess>> ranks_;
  std::vector<std::string> last_step_;
  std::map<std::string, std::string> values_;
  std::map<std::string, std::vector<std::size_t>> waiting_;
  std::multimap<double, std::string> complaints_;  // by the time of the failure
  std::optional<SteadyTime> ending_;
  bool forced_ = false;     // whether this launcher has sent SIGKILL
  bool explained_ = false;  // whether `error` names a rank that was killed
  LaunchResult result_;
};

}  // namespace

LaunchResult launch(const RunPlan& plan, const RankProgram& program,
                    const std::function<void(int rank, const nlohmann::json&)>& on_progress,
                    const std::function<bool()>& interrupted) {
  return Launch(plan, program, on_progress).run(interrupted);
}

}  // namespace ringside
