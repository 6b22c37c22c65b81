#include "experiments/tools/cli/job_start.h"

#include <filesystem>
#include <iostream>
#include <iterator>
#include <optional>
#include <sstream>

#include "core/base/error.h"
#include "core/base/processor.h"
#include "core/base/shell_word.h"
#include "core/device/cuda/cuda.h"
#include "experiments/runner/hosts/addresses.h"
#include "experiments/runner/hosts/agent.h"
#include "experiments/runner/hosts/job_hosts.h"
#include "experiments/runner/hosts/launcher_env.h"
#include "experiments/runner/hosts/ssh.h"
#include "experiments/tools/cli/command.h"
#include "ps/transport/zmq/keys.h"

namespace ringside::tools::cli {
namespace {

constexpr const char* keys_from_input = "-";
constexpr int usual_port = 29500;  // of torchrun and of programs that follow its example

/// A job that this process leads, and the agents that it has started itself, if it has.
struct LedJob {
  std::unique_ptr<runner::SshAgents> ssh;
  std::unique_ptr<runner::Job> job;
  std::string
      description;  // one line: the hosts of all processes, and the source of this knowledge
};

/// The address of the leader, as this process knows it.
std::string leader_address(const runner::LauncherEnv& launched, const JobArguments& job) {
  const std::string first = launched.leader.substr(0, launched.leader.find(','));
  const std::string address =
      first.empty() ? "127.0.0.1" : runner::resolved(launched.leader_told_by, first);
  const bool here = runner::is_own_address(address);
  if (launched.rank == 0 && !here)
    throw Error(
        "the leader of the job (agent 0) is to listen at {} ({}), which is no address of its host; "
        "set MASTER_ADDR to an address of that host for all processes",
        address, launched.leader_told_by);
  if (!job.keys.empty()) return address;
  // Without keys a job has one host, so the loopback interface is enough, which no other host
  // reaches.
  if (here) return "127.0.0.1";
  throw Error(
      "the leader of the job (agent 0) is on another host, at {} ({}), and hosts trust each other "
      "by keys alone: make some with `ringside keys DIR --workers {}` in a folder that all hosts "
      "see, and start all processes with --keys DIR",
      address, launched.leader_told_by, launched.size);
}

runner::Rendezvous rendezvous_of(const runner::LauncherEnv& launched, const JobArguments& job) {
  runner::Rendezvous rendezvous{
      .address = leader_address(launched, job),
      .port = launched.port == 0 ? usual_port : launched.port,
      .keys = job.keys,
      .key = launched.rank == 0 ? std::string(ps::server_key) : ps::worker_key(launched.rank),
      .leader = "leader of the job (agent 0)",
      .address_option = launched.leader_told_by.empty() ? "MASTER_ADDR" : launched.leader_told_by,
      .port_option = "MASTER_PORT",
      .remedy = launched.leader_told_by.empty()
                    ? "the launcher does not say where the leader is: set MASTER_ADDR to its "
                      "address for all processes"
                    : fmt::format("{} names this address; check that the leader has started, "
                                  "or set MASTER_ADDR to an address of its host, and MASTER_PORT, "
                                  "for all processes",
                                  launched.leader_told_by)};
  if (job.keys != keys_from_input) return rendezvous;
  rendezvous.keys.clear();
  rendezvous.drawn_keys = std::string(std::istreambuf_iterator<char>(std::cin), {});
  if (rendezvous.drawn_keys.empty()) throw Error("--keys -: no keys came from standard input");
  return rendezvous;
}

/// The number of ranks that this process may start at once.
int slots_of(const runner::LauncherEnv& launched, const JobArguments& job) {
  if (job.slots > 0) return job.slots;
  if (launched.slots_as.empty()) return launched.slots;
  const auto gpus = launched.slots_as == "cpu" ? 0 : cuda::look_at_machine().gpus.size();
  if (launched.slots_as == "gpu" && gpus == 0)
    throw Error("PET_NPROC_PER_NODE = gpu, but this host shows no GPU; set it to cpu or a number");
  return gpus > 0 ? static_cast<int>(gpus) : allowed_cores().value_or(1);
}

runner::AgentFacts facts_of(const runner::LauncherEnv& launched, const JobTask& task,
                            const JobArguments& job, const Process& process) {
  runner::AgentFacts facts =
      runner::facts_of_this_process(std::filesystem::canonical(process.program));
  facts.agent = launched.rank;
  facts.agents = launched.size;
  facts.slots = slots_of(launched, job);
  facts.commit = process.built_commit;
  if (!job.advertise.empty()) facts.address = runner::address_given("--advertise", job.advertise);
  facts.experiment = runner::digest_of(task.files, task.settings);
  return facts;
}

RankProgram rank_program(const Process& process) {
  return {process.program, {"rank"}, process.environment};
}

runner::JobStart job_start(runner::Rendezvous rendezvous, runner::AgentFacts facts,
                           const JobArguments& job, const Process& process) {
  if (facts.address.empty()) facts.address = rendezvous.address;
  facts.interface = runner::interface_of(facts.address);
  return {.rendezvous = std::move(rendezvous),
          .facts = std::move(facts),
          .join_timeout_s = job.join_timeout_s,
          .program = rank_program(process),
          .interrupted = process.interrupted,
          .say = [](const std::string& line) {
            std::cerr << fmt::format("ringside: {}\n", line) << std::flush;
          }};
}

/// A job whose agents this process starts by ssh. It leads them and starts no ranks itself.
LedJob launch_job(const JobTask& task, const JobArguments& job, const Process& process) {
  const std::vector<runner::SshHost> hosts = runner::hosts_given(job.hosts);
  const auto size = static_cast<int>(hosts.size()) + 1;
  runner::AgentFacts facts = facts_of({.rank = 0, .size = size}, task, job, process);
  facts.slots = 0;
  if (facts.address.empty())
    facts.address = runner::own_address_towards(runner::resolved("--hosts", hosts.front().name),
                                                "set --advertise to an address of this host");
  const std::string keys = ps::draw_keys(size);
  runner::JobStart start = job_start({.address = facts.address,
                                      .key = ps::server_key,
                                      .drawn_keys = keys,
                                      .leader = "leader of the job",
                                      .address_option = "--advertise",
                                      .other_address = "--advertise"},
                                     facts, job, process);
  LedJob out;
  int port = 0;
  const auto command = [&](std::size_t host) {
    std::vector<std::string> words = {"exec",
                                      "env",
                                      fmt::format("RANK={}", host + 1),
                                      fmt::format("WORLD_SIZE={}", size),
                                      "MASTER_ADDR=" + facts.address,
                                      fmt::format("MASTER_PORT={}", port),
                                      std::filesystem::canonical(process.program),
                                      task.command};
    for (const std::string& file : task.files) words.push_back(std::filesystem::absolute(file));
    words.insert(words.end(), task.settings.begin(), task.settings.end());
    const std::vector<std::string> own = {"--keys",         keys_from_input,
                                          "--slots",        std::to_string(hosts[host].slots),
                                          "--join-timeout", fmt::format("{}", job.join_timeout_s)};
    words.insert(words.end(), own.begin(), own.end());
    std::string text;
    for (const std::string& word : words) text += quoted(word) + " ";
    return text;
  };
  std::istringstream ssh(job.ssh);
  const std::vector<std::string> words(std::istream_iterator<std::string>(ssh), {});
  if (words.empty()) throw Error("--ssh names no program");
  start.on_listening = [&](int listened) {
    port = listened;
    out.ssh =
        std::make_unique<runner::SshAgents>(runner::SshStart{.hosts = hosts,
                                                             .ssh = words,
                                                             .command = command,
                                                             .input = keys,
                                                             .environment = process.environment});
  };
  start.check = [&] { out.ssh->check(); };
  out.job = std::make_unique<runner::Job>(start);
  out.description = fmt::format("Job of {} hosts (--hosts), led at {}:{}: {}", hosts.size(),
                                facts.address, port, text_of(out.job->agents()));
  return out;
}

/// A job whose processes a launcher has started.
LedJob join_as_leader(const runner::LauncherEnv& launched, const JobTask& task,
                      const JobArguments& job, const Process& process) {
  const runner::JobStart start =
      job_start(rendezvous_of(launched, job), facts_of(launched, task, job, process), job, process);
  LedJob out;
  out.job = std::make_unique<runner::Job>(start);
  out.description = fmt::format(
      "Job of {} processes ({}), led at {}:{} ({}): {}", launched.size, launched.told_by,
      start.rendezvous.address, start.rendezvous.port,
      launched.leader_told_by.empty() ? "the launcher does not say where" : launched.leader_told_by,
      text_of(out.job->agents()));
  return out;
}

/// The job that a launcher has made this process lead, or that `job.hosts` asks for; none if the
/// process is alone. Blocks until all agents have come. Throws Error.
std::optional<LedJob> lead_job(const std::optional<runner::LauncherEnv>& launched,
                               const JobTask& task, const JobArguments& job,
                               const Process& process) {
  if (!job.hosts.empty()) {
    process.catch_interrupts();
    return launch_job(task, job, process);
  }
  if (!launched) return {};
  process.catch_interrupts();
  return join_as_leader(*launched, task, job, process);
}

/// Runs this process as an agent, and returns its exit status.
int follow(const runner::LauncherEnv& launched, const JobTask& task, const JobArguments& job,
           const Process& process) {
  try {
    process.catch_interrupts();
    runner::run_agent({.rendezvous = rendezvous_of(launched, job),
                       .facts = facts_of(launched, task, job, process),
                       .join_timeout_s = job.join_timeout_s,
                       .program = rank_program(process),
                       .interrupted = process.interrupted,
                       .say = [&](const std::string& line) {
                         std::cerr << fmt::format("ringside: agent {}: {}\n", launched.rank, line)
                                   << std::flush;
                       }});
    return ok;
  } catch (const std::exception& error) {
    return complain(process.interrupted() ? was_interrupted : run_failed,
                    fmt::format("agent {}: {}", launched.rank, error.what()));
  }
}

}  // namespace

void add_job(CommandOptions& options, JobArguments& job) {
  options
      .add("--advertise", job.advertise,
           "under a launcher: the address or interface of this host by which other hosts reach it; "
           "without it the one by which this host reaches the leader")
      .type("ADDRESS");
  options
      .add("--join-timeout", job.join_timeout_s,
           "under a launcher: seconds for which the processes wait for each other")
      .type("SECONDS")
      .between(1.0, 86400.0);
}

void add_launched(CommandOptions& options, JobArguments& job) {
  options
      .add("--keys", job.keys,
           "under a launcher on several hosts: the folder of the job's keys, as `ringside keys` "
           "makes it, with a worker for every process")
      .type("DIR");
  options
      .add("--slots", job.slots,
           "under a launcher: number of workers that this process may start at once; "
           "without it one, or the number in PET_NPROC_PER_NODE")
      .type("N")
      .between(1, 1024);
}

Option add_hosts(CommandOptions& options, JobArguments& job) {
  options
      .add("--ssh", job.ssh,
           "the program that runs a command on a host, with its options, as in 'ssh -p "
           "2222'")
      .type("COMMAND");
  return options
      .add("--hosts", job.hosts,
           "the hosts, each with the number of workers that it may have at once, as in "
           "node1:4,node2:4; ssh starts an agent on each")
      .type("HOST:N,...");
}

void check_alone(const std::string& command, const std::string& instead, const Process& process) {
  if (const auto launched = runner::launcher_env_of(process.environment))
    throw Error(
        "{}: {} say that a launcher has started this process as one of {}, and each would make the "
        "whole run by itself; {}",
        command, launched->told_by, launched->size, instead);
}

int in_job(const JobTask& task, const JobArguments& job, const Process& process,
           const std::function<int(runner::Job*)>& lead) {
  std::optional<LedJob> led;
  try {
    const auto launched =
        job.hosts.empty() ? runner::launcher_env_of(process.environment) : std::nullopt;
    if (launched && launched->rank > 0) return follow(*launched, task, job, process);
    led = lead_job(launched, task, job, process);
  } catch (const std::exception& error) {
    return complain(process.interrupted() ? was_interrupted : wrong_input, error.what());
  }
  if (!led) return lead(nullptr);
  std::cerr << led->description << std::endl;
  const int status = lead(led->job.get());
  led->job.reset();
  if (led->ssh) std::cerr << led->ssh->finish() << std::flush;
  return status;
}

}  // namespace ringside::tools::cli
