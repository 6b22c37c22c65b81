#include "experiments/runner/hosts/host_commands.h"

#include <chrono>
#include <csignal>
#include <thread>

#include "core/base/error.h"
#include "core/base/shell_word.h"

namespace ringside::runner {
namespace {

constexpr auto grace = std::chrono::milliseconds(1500);
constexpr auto nap = std::chrono::milliseconds(5);

/// The shell hands a signal to end on to the command, and stays until that has ended.
constexpr const char* frame = R"(trap 'kill $p' TERM
(cd {folder} && exec {command}) &
p=$!
while :; do
  wait $p; status=$?
  kill -0 $p 2>/dev/null || break
done
rm -rf {folder}
exit $status)";

}  // namespace

void HostCommands::run(int command, const std::string& text, const std::string& folder,
                       std::vector<std::string> environment) {
  std::string script = fmt::format(fmt::runtime(frame), fmt::arg("folder", quoted(folder)),
                                   fmt::arg("command", text));
  running_[command] = std::make_unique<ChildProcess>(
      "a command", std::vector<std::string>{"/bin/sh", "-c", std::move(script)},
      std::move(environment), ChildOptions{.own_group = true});
}

void HostCommands::end(int command) {
  if (const auto found = running_.find(command); found != running_.end())
    found->second->signal(SIGTERM);
}

void HostCommands::end_all() {
  for (const auto& [command, process] : running_) process->signal(SIGTERM);
  const auto end = std::chrono::steady_clock::now() + grace;
  while (!running_.empty() && std::chrono::steady_clock::now() < end) {
    read();
    std::this_thread::sleep_for(nap);
  }
  running_.clear();
}

std::vector<int> HostCommands::files() const {
  std::vector<int> out;
  for (const auto& [command, process] : running_) out.push_back(process->output().file());
  return out;
}

std::vector<HostCommands::News> HostCommands::read() {
  std::vector<News> out;
  for (auto one = running_.begin(); one != running_.end();) {
    const bool ended = one->second->reap();
    News news{.command = one->first, .output = one->second->output().read()};
    if (ended) news.status = one->second->status().value_or(-1);
    one = ended ? running_.erase(one) : std::next(one);
    if (news.status || !news.output.empty()) out.push_back(std::move(news));
  }
  return out;
}

}  // namespace ringside::runner
