// A command as one of the processes of a job.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "experiments/hosts/job.h"
#include "experiments/hosts/ssh.h"
#include "experiments/job/seat.h"

namespace ringside {

struct Arguments;
struct Process;

/// A job that this process leads, and the agents that it has started itself, if it has.
struct LedJob {
  std::unique_ptr<SshAgents> ssh;
  std::unique_ptr<Job> job;
  std::string description;  // one line: who is where, and where that is known from
};

/// The job that a launcher has made this process lead, or that arguments.job.hosts asks for; none
/// if the process is alone. Blocks until all agents have come. Throws Error.
std::optional<LedJob> lead_job(const Arguments& arguments, const Process& process);

/// The seat of a process that a launcher has made an agent; none for any other process. Throws
/// Error for variables that make no sense.
std::optional<Seat> agent_seat(const Process& process);
/// Runs this process as an agent, and returns its exit status.
int agent_command(const Seat& seat, const Arguments& arguments, const Process& process);

}  // namespace ringside
