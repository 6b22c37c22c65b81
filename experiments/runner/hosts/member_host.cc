#include "experiments/runner/hosts/member_host.h"

#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "core/base/error.h"
#include "core/base/shell_word.h"
#include "core/base/utf8.h"
#include "experiments/runner/hosts/mpi_launch_shim.h"
#include "experiments/runner/hosts/mpi_names.h"

namespace ringside::runner {
namespace {

namespace fs = std::filesystem;

/// A file that starts the program of this process while it lives.
fs::path own_program(const std::string& file) {
  return file == "/proc/self/exe" ? fs::path(fmt::format("/proc/{}/exe", getpid()))
                                  : fs::absolute(file);
}

}  // namespace

/// Hands on what ranks do, and notes the ranks that have ended well.
class MemberHost::Ends : public RankEvents {
 public:
  explicit Ends(RankEvents& events) : events_(events) {}
  void line(int rank, const nlohmann::json& value) override { events_.line(rank, value); }
  void output(int rank, const std::string& text) override { events_.output(rank, text); }
  void ended(int rank, const RankEnd& end) override {
    if (end.ended_well()) well.push_back(rank);
    events_.ended(rank, end);
  }
  void stood(int rank, bool stands) override { events_.stood(rank, stands); }
  std::vector<int> well{};

 private:
  RankEvents& events_;
};

MemberHost::MemberHost(RankProgram program, std::string address)
    : program_(program), address_(std::move(address)), ranks_(std::move(program)) {}

MemberHost::~MemberHost() { end_world(); }

void MemberHost::start(const RunPlan& plan, int rank) {
  if (!world_) return ranks_.start(plan, rank);
  world_->awaited.emplace(
      rank, new Awaited{plan, LocalListener(mpi_launch_shim_name(world_->name, rank))});
}

void MemberHost::signal(int rank, int number) {
  if (world_ && world_->awaited.erase(rank) > 0)
    ended_.emplace_back(rank, RankEnd{.status = number, .last_line = {}, .cause = {}});
  ranks_.signal(rank, number);
}

void MemberHost::tell(const nlohmann::json& value) {
  if (value.contains("world")) {
    end_world();
    if (value["world"].is_null())
      news_.push_back({{"left", true}});
    else
      begin_world(value["world"]);
  } else if (value.contains("text") && world_) {
    run_command(value.at("command"), value["text"]);
  } else if (value.contains("end")) {
    if (const auto found = commands_.find(value["end"].get<int>()); found != commands_.end())
      found->second->end();
  }
}

void MemberHost::run_command(int command, const std::string& text) {
  auto environment = without_launchers(program_.environment);
  for (auto& own : variables_of_host(address_, world_->folder, environment))
    environment.push_back(std::move(own));
  const std::string in_folder =
      fmt::format("cd {} && exec {}", ringside::quoted(world_->folder), text);
  try {
    commands_[command] = std::make_unique<SubprocessGroup>(
        RankProgram{program_.file, {}, std::move(environment)},
        std::vector<CommandLine>{{"/bin/sh", "-c", in_folder}}, world_->folder);
  } catch (const std::exception& error) {
    commands_.erase(command);
    news_.push_back({{"command", command}, {"output", utf8_text(error.what())}});
    news_.push_back({{"command", command}, {"status", -1}});
  }
}

void MemberHost::begin_world(const nlohmann::json& world) {
  world_.emplace(World{world.at("name"), world.at("folder"), world.at("stay")});
  std::error_code error;
  fs::create_directories(world_->folder, error);
  fs::permissions(world_->folder, fs::perms::owner_all, error);
  // Under this name the launcher of MPI finds the program on every host.
  fs::create_symlink(own_program(program_.file), fs::path(world_->folder) / program_link, error);
}

void MemberHost::end_world() {
  if (!world_) return;
  world_->shims.clear();
  for (const auto& [number, command] : commands_) command->end();
  commands_.clear();
  std::error_code error;
  fs::remove_all(world_->folder, error);
  world_.reset();
}

std::vector<int> MemberHost::files() const {
  std::vector<int> out = ranks_.files();
  if (!world_) return out;
  for (const auto& [rank, awaited] : world_->awaited)
    out.push_back(awaited->shim ? awaited->shim->socket() : awaited->listener.file());
  for (const auto& [rank, shim] : world_->shims) out.push_back(shim->socket());
  for (const auto& [number, command] : commands_) out.push_back(command->file());
  return out;
}

void MemberHost::read(RankEvents& events) {
  for (const auto& [rank, end] : std::exchange(ended_, {})) events.ended(rank, end);
  Ends ends(events);
  ranks_.read(ends);
  if (world_) {
    for (const int rank : world_->stay ? std::vector<int>() : ends.well)
      if (const auto found = world_->shims.find(rank); found != world_->shims.end()) {
        found->second->send({{"status", EXIT_SUCCESS}});
        world_->shims.erase(found);
      }
    read_world(events);
  }
  for (const nlohmann::json& news : std::exchange(news_, {})) events.told(news);
}

void MemberHost::read_world(RankEvents& events) {
  auto& awaited = world_->awaited;
  auto& shims = world_->shims;
  for (auto one = awaited.begin(); one != awaited.end();)
    one = meet(one->first, *one->second, events) ? awaited.erase(one) : std::next(one);
  for (auto one = shims.begin(); one != shims.end();) {
    const bool gone = has_news(one->second->socket()) && !one->second->receive();
    if (gone) news_.push_back({{"gone", one->first}});
    one = gone ? shims.erase(one) : std::next(one);
  }
  for (auto one = commands_.begin(); one != commands_.end();) {
    const auto& [number, command] = *one;
    const bool ended = command->wait(0);
    if (const std::string output = command->read(); !output.empty())
      news_.push_back({{"command", number}, {"output", utf8_text(output)}});
    if (ended) news_.push_back({{"command", number}, {"status", command->status().value_or(-1)}});
    one = ended ? commands_.erase(one) : std::next(one);
  }
}

bool MemberHost::meet(int rank, Awaited& awaited, RankEvents& events) {
  try {
    if (!awaited.shim) {
      const auto socket = awaited.listener.accept();
      if (!socket) return false;
      awaited.shim = std::make_unique<JsonLine>(*socket);
      awaited.file = receive_file(*socket);
    }
    if (!has_news(awaited.shim->socket())) return false;
    const auto values = awaited.shim->receive();
    if (!values) {  // the leader waits a moment for the cause, such as the end of MPI's launcher
      news_.push_back({{"gone", rank}});
      awaited.shim.reset();
      if (awaited.file >= 0) close(std::exchange(awaited.file, -1));
      return false;
    }
    if (values->empty()) return false;
    start_member(rank, awaited, values->front().at("environment"));
    world_->shims[rank] = std::move(awaited.shim);
    news_.push_back({{"came", rank}});
  } catch (const std::exception& error) {
    events.ended(rank, {{}, "", fmt::format("did not start: {}", error.what())});
  }
  if (awaited.file >= 0) close(awaited.file);
  return true;
}

void MemberHost::start_member(int rank, const Awaited& awaited,
                              const std::vector<std::string>& told) {
  RankAddition addition;
  for (const std::string& variable : program_.environment)
    if (const std::string name = variable.substr(0, variable.find('=')); is_of_launcher(name))
      addition.environment.push_back(name);
  for (const auto& variables :
       {told, variables_of_host(address_, world_->folder, program_.environment)})
    for (const std::string& variable : variables) {
      const std::string name = variable.substr(0, variable.find('='));
      std::erase_if(addition.environment, [&](const std::string& other) {
        return other.substr(0, other.find('=')) == name;
      });
      addition.environment.push_back(variable);
    }
  if (awaited.file >= 0) {
    std::erase_if(addition.environment,
                  [](const std::string& variable) { return variable.starts_with("PMI_FD="); });
    addition.environment.push_back(fmt::format("PMI_FD={}", awaited.file));
    addition.files.push_back(awaited.file);
  }
  ranks_.start(awaited.plan, rank, addition);
}

}  // namespace ringside::runner
