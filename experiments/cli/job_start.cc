#include "experiments/cli/job_start.h"

#include <filesystem>
#include <iostream>

#include "core/base/error.h"
#include "experiments/cli/commands.h"
#include "experiments/job/addresses.h"
#include "ps/wires/zmq/keys.h"

namespace ringside {
namespace {

constexpr int usual_port = 29500;  // of torchrun and of what follows its example

/// The address of rank 0 as it is known to this process.
std::string leader_address(const Seat& seat, const JobArguments& job) {
  const std::string first = seat.leader.substr(0, seat.leader.find(','));
  const std::string address = first.empty() ? "127.0.0.1" : resolved(seat.leader_told_by, first);
  const bool here = is_own_address(address);
  if (seat.rank == 0 && !here)
    throw Error(
        "rank 0 of the job is to listen at {} ({}), which is no address of its host; set "
        "MASTER_ADDR to an address of that host for all processes",
        address, seat.leader_told_by);
  if (!job.keys.empty()) return address;
  // Without keys a job is of one host: then the loopback interface does, which nobody else reaches.
  if (here) return "127.0.0.1";
  throw Error(
      "rank 0 of the job is on another host, at {} ({}), and hosts trust each other by keys alone: "
      "make some with `ringside keys DIR --workers {}` in a folder that all hosts see, and start "
      "all processes with --keys DIR",
      address, seat.leader_told_by, seat.size);
}

MeetingPoint meeting_of(const Seat& seat, const JobArguments& job) {
  const std::string told = seat.leader_told_by.empty() ? "MASTER_ADDR" : seat.leader_told_by;
  return {.address = leader_address(seat, job),
          .port = seat.port == 0 ? usual_port : seat.port,
          .keys = job.keys,
          .key = seat.rank == 0 ? std::string(ps::server_key) : ps::worker_key(seat.rank),
          .leader = "leader of the job (rank 0)",
          .address_option = told,
          .port_option = "MASTER_PORT",
          .remedy = seat.leader_told_by.empty()
                        ? "the launcher does not say where rank 0 is: set MASTER_ADDR to its "
                          "address for all processes"
                        : fmt::format("{} says that rank 0 is there; look whether it has begun, or "
                                      "set MASTER_ADDR and MASTER_PORT for all processes",
                                      seat.leader_told_by)};
}

AgentFacts facts_of(const Seat& seat, const Arguments& arguments, const Process& process) {
  const JobArguments& job = arguments.job;
  AgentFacts facts = facts_of_this_process(std::filesystem::canonical(process.program));
  facts.agent = seat.rank;
  facts.agents = seat.size;
  facts.slots = job.slots > 0 ? job.slots : seat.slots;
  facts.commit = process.built_commit;
  if (!job.advertise.empty()) facts.address = address_given("--advertise", job.advertise);
  std::vector<std::string> settings = arguments.overrides;
  settings.insert(settings.end(), arguments.cases.begin(), arguments.cases.end());
  settings.insert(settings.end(), arguments.schemes.begin(), arguments.schemes.end());
  for (const std::int64_t world : arguments.worlds) settings.push_back(std::to_string(world));
  facts.experiment = digest_of(arguments.file, settings);
  return facts;
}

RankProgram rank_program(const Process& process) {
  return {process.program, {"rank"}, process.environment};
}

}  // namespace

std::optional<Seat> seat_of(const Process& process) { return seat_of(process.environment); }

JobStart job_start(const Seat& seat, const Arguments& arguments, const Process& process) {
  JobStart start{.meeting = meeting_of(seat, arguments.job),
                 .facts = facts_of(seat, arguments, process),
                 .join_timeout_s = arguments.job.join_timeout_s,
                 .program = rank_program(process),
                 .interrupted = process.interrupted,
                 .say = [](const std::string& line) {
                   std::cerr << fmt::format("ringside: {}\n", line) << std::flush;
                 }};
  if (start.facts.address.empty()) start.facts.address = start.meeting.address;
  return start;
}

AgentStart agent_start(const Seat& seat, const Arguments& arguments, const Process& process) {
  return {.meeting = meeting_of(seat, arguments.job),
          .facts = facts_of(seat, arguments, process),
          .join_timeout_s = arguments.job.join_timeout_s,
          .program = rank_program(process),
          .interrupted = process.interrupted};
}

int agent_command(const Seat& seat, const Arguments& arguments, const Process& process) {
  try {
    process.catch_interrupts();
    run_agent(agent_start(seat, arguments, process));
    return ok;
  } catch (const std::exception& error) {
    return complain(process.interrupted() ? was_interrupted : run_failed,
                    fmt::format("agent {}: {}", seat.rank, error.what()));
  }
}

std::string describe(const Seat& seat, const MeetingPoint& meeting, const Job& job) {
  return fmt::format(
      "Job of {} processes ({}), led at {}:{} ({}): {}", seat.size, seat.told_by, meeting.address,
      meeting.port,
      seat.leader_told_by.empty() ? "the launcher does not say where" : seat.leader_told_by,
      text_of(job.agents()));
}

}  // namespace ringside
