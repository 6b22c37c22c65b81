#include "experiments/runner/hosts/mpi_world.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <sstream>

#include "core/base/error.h"
#include "core/base/seconds_now.h"
#include "core/base/shell_word.h"
#include "core/launch/process_end.h"
#include "experiments/runner/hosts/mpi_launch_shim.h"
#include "experiments/runner/hosts/mpi_names.h"
#include "experiments/runner/registry/mpi_of.h"
#include "ps/protocol/rendezvous.h"

namespace ringside::runner {
namespace {

constexpr int launcher_number = 0;
constexpr std::size_t most_said = 400;
constexpr int poll_ms = 20;
/// Daemons that end take their shims with them: so long the end of a shim may still be
/// explained by that of its daemon.
constexpr double explained_s = 0.3;
/// How long the launcher may take to end by itself, to end when it is told to, and the agents to
/// remove what is left.
constexpr double well_s = 3, told_s = 4, left_s = 3;

/// Hears only what concerns the world: its ranks have ended.
class Listener : public RankEvents {
 public:
  explicit Listener(RunSidecar& world) : world_(world) {}
  void line(int, const nlohmann::json&) override {}
  void output(int, const std::string&) override {}
  void ended(int, const RankEnd&) override {}
  void told(const nlohmann::json& value) override { world_.hear(value); }

 private:
  RunSidecar& world_;
};

/// Several lines as one, without those that only draw a rule.
std::string one_line(const std::string& text) {
  std::string out;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const auto begin = line.find_first_not_of(" -=\t\r");
    if (begin == std::string::npos) continue;
    out += (out.empty() ? "" : " ") + line.substr(begin);
  }
  return out;
}

/// The status of a shell, which tells the signal that ended its command as a number above 128.
std::string words_for_shell(int status) {
  constexpr int signalled = 128, of_exit_code = 8, last_signal = 64;
  const int code = status >> of_exit_code;
  const bool by_signal =
      status >= 0 && (status & 0x7f) == 0 && code > signalled && code <= signalled + last_signal;
  const int as_if = by_signal ? code - signalled : status;
  if (as_if < 0) return "ended";
  return (as_if == status ? "ended with " : "was killed by ") + words_for_end(as_if);
}

}  // namespace

MpiWorld::MpiWorld(const RunPlan& plan, InterHostBackend library, std::vector<RankHost*> agents,
                   const std::vector<std::string>& environment, std::function<double()> now)
    : plan_(plan),
      library_(library),
      now_(std::move(now)),
      agents_(std::move(agents)),
      name_(ps::draw_token()),
      folder_("/dev/shm/ringside-mpi-" + name_),
      came_(plan.homes.size()),
      entered_(plan.homes.size()),
      waits_since_(now_()) {
  const std::string launcher = launcher_of(library, environment);
  listener_ = std::make_unique<LocalListener>(remote_name(name_));
  const nlohmann::json world = {
      {"name", name_}, {"folder", folder_}, {"stay", !ends_with_ranks(library)}};
  for (RankHost* agent : agents_) agent->tell({{"world", world}});
  start_launcher(launcher);
}

void MpiWorld::start_launcher(const std::string& launcher) {
  std::vector<MpiHost> hosts;
  std::vector<std::vector<int>> ranks;  // by host: MPI counts ranks of a host in a row
  std::vector<std::string> names;
  for (std::size_t rank = 0; rank < plan_.homes.size(); ++rank) {
    const RankHome& home = plan_.homes[rank];
    const auto known = std::find(names.begin(), names.end(), home.host);
    const auto h = static_cast<std::size_t>(known - names.begin());
    if (known == names.end()) {
      names.push_back(home.host);
      hosts.push_back({home.address, 0});
      ranks.emplace_back();
    }
    ++hosts[h].ranks;
    ranks[h].push_back(static_cast<int>(rank));
  }
  std::vector<std::string> order;
  for (const auto& of_host : ranks)
    for (const int rank : of_host) order.push_back(std::to_string(rank));
  const std::string program = folder_ + "/" + program_link;
  const std::vector<std::string> words = launch_words(
      library_, launcher, hosts, {program, on_command_name, name_},
      {program, mpi_launch_shim_command_name, name_, fmt::format("{}", fmt::join(order, ","))});
  std::string text;
  for (const std::string& word : words) text += quoted(word) + " ";
  commands_[launcher_number] = {.agent = 0, .host = {}};
  agents_.front()->tell({{"command", launcher_number}, {"text", text}});
}

MpiWorld::~MpiWorld() {
  Listener listener(*this);
  const auto wait = [&](double seconds, const auto& done) {
    const double end = seconds_now() + seconds;
    while (!done() && seconds_now() < end) {
      wait_for_news(agents_, files(), poll_ms);
      for (RankHost* agent : agents_) agent->read(listener);
      attend();
    }
  };
  const Command& launcher = commands_.at(launcher_number);
  const bool well = failure_.empty() && std::find(came_.begin(), came_.end(), false) == came_.end();
  const auto ended = [&] { return launcher.status.has_value(); };
  if (well && ends_with_ranks(library_)) wait(well_s, ended);
  if (!ended()) {
    agents_.front()->tell({{"end", launcher_number}});
    wait(told_s, ended);
  }
  left_ = 0;
  for (RankHost* agent : agents_) agent->tell({{"world", nullptr}});
  wait(left_s, [&] {
    return left_ >= std::count_if(agents_.begin(), agents_.end(),
                                  [](const RankHost* agent) { return !agent->lost(); });
  });
}

std::vector<int> MpiWorld::files() const {
  std::vector<int> out = {listener_->file()};
  for (const auto& newcomer : newcomers_) out.push_back(newcomer->socket());
  for (const auto& [number, command] : commands_)
    if (command.asks) out.push_back(command.asks->socket());
  return out;
}

void MpiWorld::hear(const nlohmann::json& told) {
  if (told.contains("came")) {
    came_.at(told["came"].get<std::size_t>()) = true;
    if (missing(came_).empty()) waits_since_ = now_();
  }
  if (told.contains("gone") && !gone_) gone_ = {now_(), told["gone"]};
  left_ += told.contains("left");
  if (!told.contains("command")) return;
  const auto found = commands_.find(told["command"].get<int>());
  if (found == commands_.end()) return;
  if (told.contains("output")) {
    std::string& said = found->second.said;
    said += told["output"].get<std::string>();
    said.resize(std::min(said.size(), most_said));
  }
  if (told.contains("status")) ended(found->first, told["status"]);
}

void MpiWorld::note_set(const std::string& key) {
  for (std::size_t rank = 0; rank < entered_.size(); ++rank)
    if (!entered_[rank] && key == entered_mpi_key(static_cast<int>(rank))) entered_[rank] = true;
}

void MpiWorld::attend() {
  while (const auto socket = listener_->accept())
    newcomers_.push_back(std::make_unique<JsonLine>(*socket));
  for (std::unique_ptr<JsonLine>& newcomer : newcomers_) {
    if (!has_news(newcomer->socket())) continue;
    const auto values = newcomer->receive();
    if (!values || values->empty()) {
      if (!values) newcomer.reset();
      continue;
    }
    const nlohmann::json& asked = values->front();
    run(asked.at("host"), asked.at("text"), std::move(newcomer));
  }
  std::erase(newcomers_, nullptr);
  for (auto& [number, command] : commands_) {
    if (!command.asks || !has_news(command.asks->socket())) continue;
    if (command.asks->receive()) continue;
    command.asks.reset();  // the launcher has ended it
    agents_[static_cast<std::size_t>(command.agent)]->tell({{"end", number}});
  }
  if (gone_ && now_() > gone_->first + explained_s)
    fail(fmt::format("rank {} on {}: the process that the launcher of {} started for it has ended",
                     gone_->second, plan_.homes.at(static_cast<std::size_t>(gone_->second)).host,
                     title_of(library_)));
  if (gave_up_ && now_() > gave_up_->first + explained_s) fail(gave_up_->second);
  check_time();
}

void MpiWorld::check_time() {
  if (now_() < waits_since_ + plan_.train.timeout_s) return;
  if (const std::string late = missing(came_); !late.empty()) {
    const std::string said = one_line(commands_.at(launcher_number).said);
    return fail(fmt::format("the launcher of {} has not started {} within {} s{}",
                            title_of(library_), late, plan_.train.timeout_s,
                            said.empty() ? "" : "; it says: " + said));
  }
  if (const std::string late = missing(entered_); !late.empty())
    fail(fmt::format(
        "{} did not come through MPI_Init of {} within {} s (train.timeout_s); look whether their "
        "hosts reach each other and all others, on all ports",
        late, title_of(library_), plan_.train.timeout_s));
}

void MpiWorld::run(const std::string& address, const std::string& text,
                   std::unique_ptr<JsonLine> asks) {
  const auto home = std::find_if(plan_.homes.begin(), plan_.homes.end(),
                                 [&](const RankHome& one) { return one.address == address; });
  if (home == plan_.homes.end()) {
    asks->send({{"status", EXIT_FAILURE}});
    return fail(
        fmt::format("the launcher of {} wants to start something on {}, which is no host "
                    "of this run",
                    title_of(library_), address));
  }
  const int number = commands_.rbegin()->first + 1;
  agents_[static_cast<std::size_t>(home->agent)]->tell({{"command", number}, {"text", text}});
  commands_[number] = {.agent = home->agent, .host = home->host, .asks = std::move(asks)};
}

void MpiWorld::ended(int number, int status) {
  Command& command = commands_.at(number);
  command.status = status;
  if (command.asks) command.asks->send({{"status", status == 0 ? EXIT_SUCCESS : EXIT_FAILURE}});
  command.asks.reset();
  if (status == 0 && number != launcher_number) return;
  const bool all_came = std::find(came_.begin(), came_.end(), false) == came_.end();
  if (status == 0 && all_came) return;
  const std::string said = one_line(command.said);
  const std::string where = number == launcher_number ? "" : command.host + ": ";
  const std::string why = fmt::format(
      "{}the {} of {} {}{}{}", where, number == launcher_number ? "launcher" : "daemon",
      title_of(library_), words_for_shell(status), all_came ? "" : " before all ranks had started",
      said.empty() ? "" : "; it says: " + said);
  if (words_for_shell(status).starts_with("was killed")) return fail(why);
  // Perhaps because another one was killed, of which its host has not told yet.
  if (!gave_up_) gave_up_ = {now_(), why};
}

void MpiWorld::fail(const std::string& why) {
  if (failure_.empty()) failure_ = why;
}

std::string MpiWorld::missing(const std::vector<bool>& there) const {
  std::vector<std::string> out;
  for (std::size_t rank = 0; rank < there.size(); ++rank)
    if (!there[rank]) out.push_back(fmt::format("rank {} on {}", rank, plan_.homes[rank].host));
  return fmt::format("{}", fmt::join(out, ", "));
}

}  // namespace ringside::runner
