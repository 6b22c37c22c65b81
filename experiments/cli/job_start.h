// A command in a job: what the launcher and the command line say of it.
#pragma once

#include <optional>
#include <string>

#include "experiments/hosts/agent.h"
#include "experiments/hosts/job.h"
#include "experiments/job/seat.h"

namespace ringside {

struct Arguments;
struct Process;

/// The seat that a launcher has given to this process; none if the process is alone. Throws Error
/// for variables that make no sense.
std::optional<Seat> seat_of(const Process& process);

/// What the process that leads the job needs to know, and an agent. Throw Error for addresses that
/// cannot be used.
JobStart job_start(const Seat& seat, const Arguments& arguments, const Process& process);
AgentStart agent_start(const Seat& seat, const Arguments& arguments, const Process& process);

/// Runs this process as an agent, and returns its exit status.
int agent_command(const Seat& seat, const Arguments& arguments, const Process& process);

/// One line about a job whose agents have come.
std::string describe(const Seat& seat, const MeetingPoint& meeting, const Job& job);

}  // namespace ringside
