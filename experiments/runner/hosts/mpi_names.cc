#include "experiments/runner/hosts/mpi_names.h"

#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <string_view>

#include "core/base/error.h"
#include "core/launch/other_program.h"
#include "experiments/runner/hosts/addresses.h"

namespace ringside::runner {
namespace {

using Words = std::vector<std::string>;

std::string name_in(const std::string& variable) { return variable.substr(0, variable.find('=')); }

/// "10.0.0.1:2,10.0.0.2:2"
std::string with_slots(const std::vector<MpiHost>& hosts) {
  Words out;
  for (const MpiHost& host : hosts) out.push_back(fmt::format("{}:{}", host.address, host.ranks));
  return fmt::format("{}", fmt::join(out, ","));
}

Words openmpi_words(const std::string& launcher, const std::vector<MpiHost>& hosts,
                    const Words& remote) {
  return {launcher,
          "--noprefix",  // the path of the launcher says nothing of other hosts
          "--leave-session-attached", "--mca", "plm", "rsh", "--mca", "plm_rsh_agent",
          fmt::format("{}", fmt::join(remote, " ")),
          // All daemons by way of us, not by way of each other.
          "--mca", "plm_rsh_no_tree_spawn", "1",
          // Variables of this host are wrong on others.
          "--mca", "plm_rsh_pass_environ_mca_params", "0", "--bind-to", "none", "--map-by", "slot",
          "--oversubscribe", "--host", with_slots(hosts)};
}

/// The first of `remote` is the program; the others stand in HYDRA_LAUNCHER_EXTRA_ARGS.
Words mpich_words(const std::string& launcher, const std::vector<MpiHost>& hosts,
                  const Words& remote) {
  return {"env",
          fmt::format("HYDRA_LAUNCHER_EXTRA_ARGS={}",
                      fmt::join(Words(remote.begin() + 1, remote.end()), " ")),
          launcher,
          "-rmk",
          "user",
          "-launcher",
          "rsh",
          "-launcher-exec",
          remote.front(),
          "-bind-to",
          "none",
          "-hosts",
          with_slots(hosts)};
}

}  // namespace

std::string title_of(InterHostBackend library) {
  return library == InterHostBackend::openmpi ? "Open MPI" : "MPICH";
}

std::string launcher_of(InterHostBackend library, const Words& environment) {
  const Words names = library == InterHostBackend::openmpi
                          ? Words{"mpirun.openmpi", "mpirun"}
                          : Words{"mpiexec.hydra", "mpiexec.mpich", "mpiexec"};
  for (const std::string& name : names)
    if (const std::string file = file_of_command(name, environment); !file.empty()) return file;
  throw Error("hosts.between = '{}': the launcher of {} ({}) is in no folder of PATH; install {}",
              name_of(library), title_of(library), fmt::join(names, " or "),
              library == InterHostBackend::openmpi ? "openmpi-bin" : "mpich");
}

Words launch_words(InterHostBackend library, const std::string& launcher,
                   const std::vector<MpiHost>& hosts, const Words& remote, const Words& program) {
  int ranks = 0;
  for (const MpiHost& host : hosts) ranks += host.ranks;
  Words out = library == InterHostBackend::openmpi ? openmpi_words(launcher, hosts, remote)
                                                   : mpich_words(launcher, hosts, remote);
  out.insert(out.end(), {"-n", std::to_string(ranks)});
  out.insert(out.end(), program.begin(), program.end());
  return out;
}

bool is_of_launcher(const std::string& name) {
  constexpr std::string_view of_users[] = {"OMPI_MCA_btl",   "OMPI_MCA_pml", "OMPI_MCA_mtl",
                                           "OMPI_MCA_coll",  "OMPI_MCA_osc", "OMPI_MCA_oob",
                                           "OMPI_MCA_common"};
  constexpr std::string_view of_launchers[] = {
      "OMPI_",  "OPAL_",   "ORTE_",    "PRTE_", "PMIX_", "PMI_",  "PMI2_",     "HYDI_", "HYDRA_",
      "SLURM_", "SLURMD_", "MPIEXEC_", "SRUN_", "PBS_",  "PALS_", "MPI_LOCAL", "LSB_",  "FLUX_"};
  const auto begins = [&](std::string_view prefix) { return name.starts_with(prefix); };
  return std::none_of(std::begin(of_users), std::end(of_users), begins) &&
         std::any_of(std::begin(of_launchers), std::end(of_launchers), begins);
}

Words without_launchers(const Words& environment) {
  Words out;
  for (const std::string& variable : environment)
    if (!is_of_launcher(name_in(variable))) out.push_back(variable);
  return out;
}

Words variables_of_host(const std::string& address, const std::string& folder,
                        const Words& environment) {
  Words out = {"TMPDIR=" + folder, "OMPI_MCA_btl_vader_backing_directory=" + folder,
               "UCX_POSIX_DIR=" + folder};
  if (geteuid() == 0)
    out.insert(out.end(), {"OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1"});
  const auto unless_set = [&](const std::string& name, const std::string& value) {
    if (value_of(name, environment).empty()) out.push_back(name + "=" + value);
  };
  for (const auto& [interface, own] : own_addresses()) {
    if (own != address) continue;
    unless_set("OMPI_MCA_btl_tcp_if_include", interface);
    unless_set("OMPI_MCA_oob_tcp_if_include", interface);
    unless_set("UCX_NET_DEVICES", interface);
    unless_set("FI_TCP_IFACE", interface);
    unless_set("MPIR_CVAR_NEMESIS_TCP_NETWORK_IFACE", interface);
    out.push_back("HYDRA_IFACE=" + interface);
  }
  return out;
}

int number_of(const Words& environment) {
  for (const char* name : {"OMPI_COMM_WORLD_RANK", "PMI_RANK"}) {
    const std::string text = value_of(name, environment);
    int number = -1;
    if (!text.empty() &&
        std::from_chars(text.data(), text.data() + text.size(), number).ec == std::errc{})
      return number;
  }
  return -1;
}

std::string value_of(const std::string& name, const Words& environment) {
  for (const std::string& variable : environment)
    if (variable.starts_with(name + "=")) return variable.substr(name.size() + 1);
  return {};
}

}  // namespace ringside::runner
