#include "experiments/runner/hosts/mpi_launch_shim.h"

#include <sys/prctl.h>
#include <unistd.h>

#include <charconv>
#include <csignal>
#include <nlohmann/json.hpp>

#include "core/base/error.h"
#include "core/base/json_line.h"
#include "core/base/local_socket.h"
#include "core/base/utf8.h"
#include "experiments/runner/hosts/mpi_names.h"

namespace ringside::runner {
namespace {

/// How long the other side may take to begin: it is told to before the launcher of MPI is started.
constexpr double patience_s = 20;

/// The status that the other end says; a failure if it ends before.
int awaited_status(JsonLine& line) {
  while (const auto values = line.receive())
    for (const nlohmann::json& value : *values) return value.at("status");
  return EXIT_FAILURE;
}

}  // namespace

std::string mpi_launch_shim_name(const std::string& world, int rank) {
  return fmt::format("ringside-{}-{}", world, rank);
}
std::string remote_name(const std::string& world) { return fmt::format("ringside-{}-on", world); }

int mpi_launch_shim(const std::string& world, const std::vector<int>& ranks,
                    const std::vector<std::string>& environment) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);  // with the daemon of MPI, without which its rank is lost
  const int number = number_of(environment);
  if (number < 0 || number >= static_cast<int>(ranks.size()))
    throw Error("this process is started by `ringside compare` through a launcher of MPI");
  const int rank = ranks[static_cast<std::size_t>(number)];
  JsonLine line(connect_to(mpi_launch_shim_name(world, rank), patience_s));
  int file = -1;
  const std::string text = value_of("PMI_FD", environment);
  std::from_chars(text.data(), text.data() + text.size(), file);
  // This process keeps the file too: its end would tell the daemon that the rank has failed, and
  // whether it has is for the leader to say.
  std::vector<std::string> told;
  for (const std::string& variable : environment)
    if (is_of_launcher(variable.substr(0, variable.find('='))) || variable.starts_with("OMPI_MCA_"))
      told.push_back(utf8_text(variable));
  if (!send_file(line.socket(), file) || !line.send({{"environment", told}})) return EXIT_FAILURE;
  return awaited_status(line);
}

int run_on(const std::string& world, const std::string& host, const std::string& command) {
  JsonLine line(connect_to(remote_name(world), patience_s));
  line.send({{"host", host}, {"text", utf8_text(command)}});
  return awaited_status(line);
}

}  // namespace ringside::runner
