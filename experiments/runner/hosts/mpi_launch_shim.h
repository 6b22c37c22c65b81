// The program that MPI's launcher starts in place of a rank, and in place of ssh.
#pragma once

#include <string>
#include <vector>

namespace ringside::runner {

/// The program's name in the folder of a world, and the names of its two commands.
inline constexpr const char* program_link = "ringside";
inline constexpr const char* mpi_launch_shim_command_name = "mpi-launch-shim";
inline constexpr const char* on_command_name = "on";

/// The names of the local sockets for the shim of a rank, and for commands on other hosts.
std::string mpi_launch_shim_name(const std::string& world, int rank);
std::string remote_name(const std::string& world);

/// Passes the variables and files of MPI's launcher on to the process that starts the rank, and
/// blocks until the rank has ended. `ranks` are those of the world as the launcher counts them.
/// Returns the exit status of this process. Throws Error.
int mpi_launch_shim(const std::string& world, const std::vector<int>& ranks,
                    const std::vector<std::string>& environment);

/// Runs a command on a host of the job through the leader, as `ssh HOST COMMAND` would. Blocks
/// until the command has ended, and returns its exit status. Throws Error.
int run_on(const std::string& world, const std::string& host, const std::string& command);

}  // namespace ringside::runner
