// The program that MPI's launcher starts in place of a rank, and in place of ssh.
#pragma once

#include <string>
#include <vector>

namespace ringside {

/// The program's name in the folder of a world, and the names of its two commands.
inline constexpr const char* program_link = "ringside";
inline constexpr const char* stand_in_command_name = "stand-in";
inline constexpr const char* on_command_name = "on";

/// Where the stand-in of a rank is awaited, and where commands for other hosts are.
std::string mpi_launch_shim_name(const std::string& world, int rank);
std::string remote_name(const std::string& world);

/// Hands over to the process that starts a rank what MPI's launcher has told this one, and blocks
/// until the rank has ended. `ranks` are those of the world as the launcher counts them. Returns
/// the exit status of this process. Throws Error.
int mpi_launch_shim(const std::string& world, const std::vector<int>& ranks,
                    const std::vector<std::string>& environment);

/// Has the leader run a command on a host of the job, as `ssh HOST COMMAND` does. Blocks until the
/// command has ended, and returns its exit status. Throws Error.
int run_on(const std::string& world, const std::string& host, const std::string& command);

}  // namespace ringside
