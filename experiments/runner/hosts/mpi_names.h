// The differences between Open MPI and MPICH: arguments of launchers, and variables of ranks.
#pragma once

#include <string>
#include <vector>

#include "core/comm/inter_host_backend.h"

namespace ringside::runner {

/// Hosts of a run, in the order of its ranks there.
struct MpiHost {
  std::string address;
  int ranks = 0;
};

/// "Open MPI"
std::string title_of(InterHostBackend library);

/// The file of the launcher. Throws Error that says what to install if no folder of PATH has one.
std::string launcher_of(InterHostBackend library, const std::vector<std::string>& environment);

/// The command line that starts `program` once for each rank, host by host. The launcher starts its
/// daemons with the command line `remote`, followed by a host and a command.
std::vector<std::string> launch_words(InterHostBackend library, const std::string& launcher,
                                      const std::vector<MpiHost>& hosts,
                                      const std::vector<std::string>& remote,
                                      const std::vector<std::string>& program);

/// Whether a launcher (of MPI, or of a cluster's jobs) sets the variable for what it starts. A
/// process that is started by another launcher must not see it. Variables by which users choose how
/// MPI moves messages do not count.
bool is_of_launcher(const std::string& name);

/// The environment ("NAME=VALUE") without such variables.
std::vector<std::string> without_launchers(const std::vector<std::string>& environment);

/// Variables for the launcher, the daemons and the ranks on the host with this address: the folder
/// for their files, and the network of the address, unless `environment` names one.
std::vector<std::string> variables_of_host(const std::string& address, const std::string& folder,
                                           const std::vector<std::string>& environment);

/// The number that the launcher has given the process with this environment; negative: none.
int number_of(const std::vector<std::string>& environment);

/// The value of a variable; empty if it is not set.
std::string value_of(const std::string& name, const std::vector<std::string>& environment);

}  // namespace ringside::runner
