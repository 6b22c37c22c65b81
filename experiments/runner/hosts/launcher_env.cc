#include "experiments/runner/hosts/launcher_env.h"

#include <cctype>
#include <charconv>
#include <cstdint>
#include <string_view>
#include <utility>

#include "core/base/error.h"

namespace ringside::runner {
namespace {

constexpr int most_processes = 1'000'000, last_port = 65535;

class Variables {
 public:
  explicit Variables(const std::vector<std::string>& environment) : environment_(environment) {}

  std::string text(std::string_view name) const {
    for (const std::string& variable : environment_)
      if (variable.size() > name.size() && variable.starts_with(name) &&
          variable[name.size()] == '=')
        return variable.substr(name.size() + 1);
    return {};
  }
  bool has(std::string_view name) const { return !text(name).empty(); }
  /// Throws Error if the variable is not a number from `least` to `most`.
  int number(std::string_view name, int least, int most) const {
    return number_of(name, text(name), least, most);
  }
  int number_or(std::string_view name, int least, int most, int otherwise) const {
    return has(name) ? number(name, least, most) : otherwise;
  }
  static int number_of(std::string_view name, const std::string& value, int least, int most) {
    int out = 0;
    const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), out);
    if (error != std::errc{} || end != value.data() + value.size() || out < least || out > most)
      throw Error("{} = '{}' is no number from {} to {}", name, value, least, most);
    return out;
  }

 private:
  const std::vector<std::string>& environment_;
};

/// A port that follows from a job's number, as JAX takes it: two jobs of a host rarely share one.
int port_of_job(const std::string& number) {
  constexpr std::uint64_t first = 61440, count = 4096;
  std::uint64_t job = 0;
  std::from_chars(number.data(), number.data() + number.size(), job);
  return static_cast<int>(first + (job + job / 65536) % count);  // Open MPI counts in 65536s
}

/// The addresses in Open MPI's "1213399040.0;tcp://10.0.0.1,10.1.0.1:56295;tcp6://...".
std::string addresses_of(const std::string& uri) {
  constexpr std::string_view scheme = ";tcp://";
  const auto begin = uri.find(scheme);
  if (begin == std::string::npos) return {};
  const std::string rest = uri.substr(begin + scheme.size());
  return rest.substr(0, rest.find_first_of(":;"));
}

/// The first host of Slurm's "gnode[10,20-23],login": "gnode10".
std::string first_host(const std::string& list) {
  const auto bracket = list.find('['), comma = list.find(',');
  if (bracket == std::string::npos || comma < bracket) return list.substr(0, comma);
  const auto end = list.find_first_of(",-]", bracket);
  return list.substr(0, bracket) + list.substr(bracket + 1, end - bracket - 1);
}

/// The number of nodes that torchrun takes as N or as MIN:MAX.
int nodes_of(const std::string& value) {
  const auto colon = value.find(':');
  const int least = Variables::number_of("PET_NNODES", value.substr(0, colon), 1, most_processes);
  if (colon == std::string::npos) return least;
  if (Variables::number_of("PET_NNODES", value.substr(colon + 1), 1, most_processes) != least)
    throw Error(
        "PET_NNODES = {} is a range: torchrun may change the number of nodes while a job runs, and "
        "a comparison cannot go on with another; set one number, as {}, or {}:{}",
        value, least, least, least);
  return least;
}

/// Throws Error if only one of two variables is set that a launcher sets together.
void check_both(const Variables& variables, const char* rank, const char* size) {
  for (const auto& [set, missing] : {std::pair(rank, size), {size, rank}})
    if (variables.has(set) && !variables.has(missing))
      throw Error("{} = {} is set, but {} is not, and launchers set both; set both, or unset {}",
                  set, variables.text(set), missing, set);
}

LauncherEnv of_ranks(const Variables& variables, const char* rank, const char* size) {
  check_both(variables, rank, size);
  LauncherEnv seat;
  seat.rank = variables.number(rank, 0, most_processes - 1);
  seat.size = variables.number(size, 1, most_processes);
  seat.told_by = fmt::format("{} and {}", rank, size);
  return seat;
}

void take_leader(LauncherEnv& seat, const Variables& variables, const char* address,
                 const char* port) {
  if (variables.has(address)) {
    seat.leader = variables.text(address);
    seat.leader_told_by = address;
  }
  seat.port = variables.number_or(port, 1, last_port, seat.port);
}

LauncherEnv of_nodes(const Variables& variables) {
  const char *rank = "PET_NODE_RANK", *nodes = "PET_NNODES", *processes = "PET_NPROC_PER_NODE";
  LauncherEnv seat;
  if (variables.has(nodes)) seat.size = nodes_of(variables.text(nodes));
  if (seat.size > 1 || variables.has(rank)) {
    check_both(variables, rank, nodes);
    seat.rank = variables.number(rank, 0, most_processes - 1);
  }
  seat.told_by = fmt::format("{} and {}", rank, nodes);
  const std::string slots = variables.text(processes);
  if (slots == "auto" || slots == "cpu" || slots == "gpu")
    seat.slots_as = slots;
  else if (!slots.empty() && std::isdigit(static_cast<unsigned char>(slots.front())) == 0)
    throw Error("{} = '{}' is neither a number nor auto, cpu or gpu", processes, slots);
  else
    seat.slots = variables.number_or(processes, 1, most_processes, 1);
  take_leader(seat, variables, "PET_MASTER_ADDR", "PET_MASTER_PORT");
  return seat;
}

std::optional<LauncherEnv> told(const Variables& variables) {
  if (variables.has("RANK") || variables.has("WORLD_SIZE"))
    return of_ranks(variables, "RANK", "WORLD_SIZE");
  if (variables.has("PET_NODE_RANK") || variables.has("PET_NNODES")) return of_nodes(variables);
  if (variables.has("OMPI_COMM_WORLD_RANK") || variables.has("OMPI_COMM_WORLD_SIZE")) {
    LauncherEnv seat = of_ranks(variables, "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE");
    seat.leader = addresses_of(variables.text("OMPI_MCA_orte_hnp_uri"));
    if (!seat.leader.empty()) seat.leader_told_by = "OMPI_MCA_orte_hnp_uri";
    seat.port = port_of_job(variables.text("PMIX_NAMESPACE"));
    return seat;
  }
  if (variables.has("PMI_RANK") || variables.has("PMI_SIZE"))
    return of_ranks(variables, "PMI_RANK", "PMI_SIZE");
  if (variables.has("SLURM_PROCID") && variables.has("SLURM_STEP_NUM_TASKS")) {
    LauncherEnv seat = of_ranks(variables, "SLURM_PROCID", "SLURM_STEP_NUM_TASKS");
    seat.leader = first_host(variables.text("SLURM_STEP_NODELIST"));
    if (!seat.leader.empty()) seat.leader_told_by = "SLURM_STEP_NODELIST";
    seat.port = port_of_job(variables.text("SLURM_JOB_ID"));
    return seat;
  }
  return {};
}

}  // namespace

std::optional<LauncherEnv> launcher_env_of(const std::vector<std::string>& environment) {
  const Variables variables(environment);
  std::optional<LauncherEnv> seat = told(variables);
  if (!seat || seat->size == 1) return {};
  if (seat->rank >= seat->size)
    throw Error("{}: rank {} of {} processes cannot be", seat->told_by, seat->rank, seat->size);
  take_leader(*seat, variables, "MASTER_ADDR", "MASTER_PORT");
  if (variables.text("TORCHELASTIC_USE_AGENT_STORE") == "True" && ++seat->port > last_port)
    throw Error(
        "MASTER_PORT = {} is torchrun's, and there is no next port for the job; set a lower one",
        last_port);
  return seat;
}

}  // namespace ringside::runner
