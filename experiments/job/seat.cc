#include "experiments/job/seat.h"

#include <charconv>
#include <cstdint>
#include <string_view>

#include "core/base/error.h"

namespace ringside {
namespace {

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
  /// Throws Error if the variable is missing, or no number from `least` on.
  int number(std::string_view name, int least) const {
    const std::string value = text(name);
    if (value.empty())
      throw Error("{} is not set, but other variables of the same launcher are; set both, or none",
                  name);
    int out = 0;
    const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), out);
    if (error != std::errc{} || end != value.data() + value.size() || out < least)
      throw Error("{} = '{}' is no number from {} on", name, value, least);
    return out;
  }
  int number_or(std::string_view name, int least, int otherwise) const {
    return has(name) ? number(name, least) : otherwise;
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

Seat of_ranks(const Variables& variables, const char* rank, const char* size) {
  Seat seat;
  seat.rank = variables.number(rank, 0);
  seat.size = variables.number(size, 1);
  seat.told_by = fmt::format("{} and {}", rank, size);
  return seat;
}

void take_leader(Seat& seat, const Variables& variables, const char* address, const char* port) {
  if (variables.has(address)) {
    seat.leader = variables.text(address);
    seat.leader_told_by = address;
  }
  seat.port = variables.number_or(port, 1, seat.port);
}

std::optional<Seat> told(const Variables& variables) {
  if (variables.has("RANK") || variables.has("WORLD_SIZE"))
    return of_ranks(variables, "RANK", "WORLD_SIZE");
  if (variables.has("PET_NODE_RANK") || variables.has("PET_NNODES")) {
    Seat seat = of_ranks(variables, "PET_NODE_RANK", "PET_NNODES");
    seat.slots = variables.number_or("PET_NPROC_PER_NODE", 1, 1);
    take_leader(seat, variables, "PET_MASTER_ADDR", "PET_MASTER_PORT");
    return seat;
  }
  if (variables.has("OMPI_COMM_WORLD_RANK")) {
    Seat seat = of_ranks(variables, "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE");
    seat.leader = addresses_of(variables.text("OMPI_MCA_orte_hnp_uri"));
    if (!seat.leader.empty()) seat.leader_told_by = "OMPI_MCA_orte_hnp_uri";
    seat.port = port_of_job(variables.text("PMIX_NAMESPACE"));
    return seat;
  }
  if (variables.has("PMI_RANK")) return of_ranks(variables, "PMI_RANK", "PMI_SIZE");
  if (variables.has("SLURM_PROCID") && variables.has("SLURM_STEP_NUM_TASKS")) {
    Seat seat = of_ranks(variables, "SLURM_PROCID", "SLURM_STEP_NUM_TASKS");
    seat.leader = first_host(variables.text("SLURM_STEP_NODELIST"));
    if (!seat.leader.empty()) seat.leader_told_by = "SLURM_STEP_NODELIST";
    seat.port = port_of_job(variables.text("SLURM_JOB_ID"));
    return seat;
  }
  return {};
}

}  // namespace

std::optional<Seat> seat_of(const std::vector<std::string>& environment) {
  const Variables variables(environment);
  std::optional<Seat> seat = told(variables);
  if (!seat || seat->size == 1) return {};
  if (seat->rank >= seat->size)
    throw Error("{}: rank {} of {} processes cannot be", seat->told_by, seat->rank, seat->size);
  take_leader(*seat, variables, "MASTER_ADDR", "MASTER_PORT");
  if (variables.text("TORCHELASTIC_USE_AGENT_STORE") == "True") ++seat->port;
  return seat;
}

}  // namespace ringside
