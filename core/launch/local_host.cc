#include "core/launch/local_host.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <nlohmann/json.hpp>
#include <optional>

#include "core/base/error.h"
#include "core/base/error_text.h"
#include "core/base/json_line.h"
#include "core/launch/child_process.h"
#include "core/launch/other_program.h"

namespace ringside {
namespace {

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

bool can_be_read(int file) {
  pollfd watched{file, POLLIN, 0};
  return file >= 0 && poll(&watched, 1, 0) > 0;
}

}  // namespace

/// A rank as its launcher sees it. Its destructor leaves no process behind.
class LocalHost::RankProcess {
 public:
  RankProcess(std::vector<std::string> words, std::vector<std::string> variables,
              std::vector<int> files, const ControlGroup& group)
      : memory_(group) {
    int sockets[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets) != 0) {
      const std::string cause = std::strerror(errno);
      throw Error("cannot make a socket for a rank: {}{}", cause, limit_hint(cause));
    }
    line_ = std::make_unique<JsonLine>(sockets[0]);
    const std::unique_ptr<int, void (*)(int*)> others(&sockets[1], [](int* file) { close(*file); });
    words.push_back(std::to_string(sockets[1]));
    files.push_back(sockets[1]);
    child_.emplace("a rank", std::move(words), std::move(variables),
                   ChildOptions{.inherited = std::move(files)});
  }

  bool connected() const { return line_ != nullptr; }
  JsonLine& line() { return *line_; }
  std::vector<int> files() const { return {line_ ? line_->socket() : -1, child_->output().file()}; }
  void signal(int number) const { child_->signal(number); }

  /// Tells what the rank has said and written, and, once the rank's messages have been read to
  /// their end, how its process ended. Returns whether the process has ended.
  bool read(int rank, RankEvents& events) {
    while (line_ && can_be_read(line_->socket())) {
      const auto values = line_->receive();
      if (!values) line_.reset();
      for (const auto& value : values.value_or(std::vector<nlohmann::json>()))
        events.line(rank, value);
    }
    if (const auto stands = child_->stood()) events.stood(rank, *stands);
    const bool ended = !line_ && child_->reap();
    if (const std::string text = child_->output().read(); !text.empty()) events.output(rank, text);
    if (ended) events.ended(rank, end());
    return ended;
  }

 private:
  RankEnd end() const {
    RankEnd out{.status = child_->status(), .last_line = child_->output().last_line(), .cause = {}};
    if (out.killed_but_by(SIGTERM)) out.memory = memory_.explanation();
    return out;
  }

  OutOfMemoryWatch memory_;
  std::unique_ptr<JsonLine> line_;
  std::optional<ChildProcess> child_;
};

LocalHost::LocalHost(RankProgram program, ControlGroup group)
    : program_(std::move(program)), group_(std::move(group)) {}
LocalHost::~LocalHost() = default;

void LocalHost::start(const RunPlan& plan, int rank, const RankAddition& addition) {
  auto variables = overridden(overridden(program_.environment, addition.environment),
                              plan.ranks.at(static_cast<std::size_t>(rank)).environment);
  auto words = words_of(plan, program_, variables);
  auto process =
      std::make_unique<RankProcess>(std::move(words), std::move(variables), addition.files, group_);
  process->line().send({{"rank", rank}, {"plan", to_json(plan)}});
  ranks_[rank] = std::move(process);
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
