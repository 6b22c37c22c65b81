#include "experiments/runner/hosts/agent_facts.h"

#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <span>

#include "core/base/error.h"
#include "core/base/hash.h"
#include "core/base/processor.h"
#include "core/base/utf8.h"
#include "experiments/runner/registry/registry.h"
#include "experiments/runner/results/data_state.h"

namespace ringside::runner {
namespace {

namespace fs = std::filesystem;

void add_text(Hash& hash, const std::string& text) {
  hash.update(std::as_bytes(std::span(text)));
  hash.update(std::as_bytes(std::span("", 1)));  // texts do not run into each other
}

std::string whole_file(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw Error("cannot read {}", utf8_text(path.string()));
  Hash hash;
  std::vector<char> bytes(1 << 20);
  while (file) {
    file.read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    hash.update(std::as_bytes(std::span(bytes).first(static_cast<std::size_t>(file.gcount()))));
  }
  return hash.digest();
}

std::string target_of(const char* link) {
  std::error_code none;
  return fs::read_symlink(link, none).string();
}

std::string first_line(const char* path) {
  std::string line;
  std::ifstream file(path);
  std::getline(file, line);
  return line;
}

}  // namespace

std::string AgentFacts::name() const {
  return fmt::format("agent {} on {} ({})", agent, host, address);
}

Fields fields_of(AgentFacts& facts) {
  return {{"agent", &facts.agent},
          {"agents", &facts.agents},
          {"process", &facts.process},
          {"host", &facts.host},
          {"host_identity", &facts.host_identity},
          {"address", &facts.address},
          {"interface", &facts.interface},
          {"slots", &facts.slots},
          {"cores", &facts.cores},
          {"memory", &facts.memory},
          {"commit", &facts.commit},
          {"program", &facts.program},
          {"experiment", &facts.experiment}};
}

AgentFacts facts_of_this_process(const fs::path& program) {
  AgentFacts facts;
  facts.process = getpid();
  utsname system{};
  uname(&system);
  facts.host = utf8_text(system.nodename);
  facts.host_identity = first_line("/proc/sys/kernel/random/boot_id") + " " +
                        target_of("/proc/self/ns/pid") + " " + target_of("/proc/self/ns/net");
  facts.cores = allowed_core_numbers();
  facts.cores.resize(static_cast<std::size_t>(allowed_cores().value_or(0)));
  facts.memory = allowed_memory();
  facts.program = whole_file(program);
  return facts;
}

AgentDevices devices_of_this_process(const std::string& kind) {
  try {
    return {.seen = find_device(kind).devices()};
  } catch (const Error& error) {
    return {.cause = error.what()};
  }
}

std::string digest_of(const std::vector<std::string>& files,
                      const std::vector<std::string>& settings) {
  Hash hash;
  for (const std::string& file : files) add_text(hash, whole_file(file));
  for (const std::string& setting : settings) add_text(hash, setting);
  return hash.digest();
}

std::string digest_of_data(const std::vector<RunPlan>& runs) {
  Hash hash;
  for (const DataState::File& read : data_state(runs, Digests::taken).files) {
    add_text(hash, fs::path(read.path).filename().string());
    add_text(hash, read.digest);
  }
  return hash.digest();
}

void check_fits(const AgentFacts& leader, const AgentFacts& agent) {
  const auto compare = [&](std::string_view what, const auto& here, const auto& there,
                           std::string_view remedy) {
    if (here != there)
      throw Error("{} has {} {}, but {} has {}; {}", agent.name(), what, there, leader.name(), here,
                  remedy);
  };
  compare("a job of processes:", leader.agents, agent.agents, "start all with the same launcher");
  compare("the build", leader.commit, agent.commit, "start the same program on all hosts");
  compare("the program with hash", leader.program, agent.program,
          "copy one build of the program to all hosts");
  compare("experiment and settings with hash", leader.experiment, agent.experiment,
          "copy the experiment file to all hosts, and give all the same options");
}

}  // namespace ringside::runner
