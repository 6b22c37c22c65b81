#include "experiments/tools/bench/reference_libraries.h"

#include <fmt/format.h>
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <iterator>
#include <sstream>

#include "core/base/error.h"
#include "core/base/local_socket.h"
#include "core/base/module.h"
#include "core/base/nearest.h"
#include "core/base/processor.h"
#include "core/base/seconds_now.h"
#include "core/base/waiting_time.h"
#include "experiments/tools/bench/connected_ranks.h"
#include "ps/protocol/rendezvous.h"

namespace ringside::tools::bench {
namespace {

constexpr const char* installed = "installed";
constexpr double accept_nap_s = 0.02, last_words_s = 2;
constexpr std::size_t longest_line = 4 << 20;  // the times of a hundred thousand calls

/// A library for which this build may have a driver.
struct Known {
  std::string name, driver, packages;
  std::vector<std::string> operations;
  std::vector<CommandLine> (*programs)(const std::string& driver, const std::string& socket,
                                       int world, const std::string& folder);
};

/// Where there is a core for each rank, ranks are bound to one, as ours are: two ranks that wait in
/// a loop may otherwise stay on one core.
std::string binding(int world) {
  return world <= allowed_cores().value_or(1) ? "hwthread" : "none";
}

/// Its ranks yield where cores are fewer. Files of its shared memory go into the folder.
CommandLine open_mpi(const std::string& driver, const std::string& socket, int world,
                     const std::string& folder, const CommandLine& settings) {
  CommandLine out = {"mpirun.openmpi",
                     "-n",
                     fmt::format("{}", world),
                     "--use-hwthread-cpus",
                     "--bind-to",
                     binding(world),
                     "--mca",
                     "orte_tmpdir_base",
                     folder,
                     "--mca",
                     "btl_vader_backing_directory",
                     folder};
  if (binding(world) == "none") out.emplace_back("--oversubscribe");
  if (geteuid() == 0) out.emplace_back("--allow-run-as-root");
  out.insert(out.end(), settings.begin(), settings.end());
  out.insert(out.end(), {driver, socket});
  return out;
}

std::vector<CommandLine> one_a_rank(const CommandLine& command, const std::string& socket,
                                    int world, const std::string& folder) {
  std::vector<CommandLine> out;
  for (int rank = 0; rank < world; ++rank) {
    CommandLine& one = out.emplace_back(command);
    one.insert(one.end(), {socket, fmt::format("{}", rank), fmt::format("{}", world), folder});
  }
  return out;
}

const std::vector<Known>& known_libraries() {
  static const std::vector<Known> rows = {
      {"openmpi",
       "ringside_openmpi",
       "libopenmpi-dev and openmpi-bin",
       {},
       [](const std::string& driver, const std::string& socket, int world,
          const std::string& folder) {
         return std::vector<CommandLine>{open_mpi(driver, socket, world, folder, {})};
       }},
      {"openmpi-segmented-ring",
       "ringside_openmpi",
       "libopenmpi-dev and openmpi-bin",
       {"all_reduce"},
       [](const std::string& driver, const std::string& socket, int world,
          const std::string& folder) {
         return std::vector<CommandLine>{
             open_mpi(driver, socket, world, folder,
                      {"--mca", "coll_tuned_use_dynamic_rules", "1", "--mca",
                       "coll_tuned_allreduce_algorithm", "5"})};
       }},
      {"mpich",
       "ringside_mpich",
       "libmpich-dev and mpich",
       {},
       [](const std::string& driver, const std::string& socket, int world, const std::string&) {
         return std::vector<CommandLine>{{"mpiexec.mpich", "-bind-to", binding(world), "-n",
                                          fmt::format("{}", world), driver, socket}};
       }},
      {"gloo",
       "ringside_gloo",
       "libgloo-dev",
       {},
       [](const std::string& driver, const std::string& socket, int world,
          const std::string& folder) { return one_a_rank({driver}, socket, world, folder); }},
  };
  return rows;
}

ReferenceLibrary beside(const Known& known) {
  return {known.name, known.operations,
          [&known](const std::string& socket, int world, const std::string& folder) {
            return known.programs(path_of_module(known.driver).string(), socket, world, folder);
          }};
}

ReferenceLibrary named(const std::string& name) {
  std::vector<std::string> names = {installed};
  for (const Known& known : known_libraries()) {
    names.push_back(known.name);
    if (known.name != name) continue;
    if (!has_module(known.driver))
      throw Error(
          "--beside {}: this build has no driver for it; install {}, and build again "
          "(scripts/setup)",
          name, known.packages);
    return beside(known);
  }
  throw Error("--beside {}: unknown library; did you mean '{}'?", name, nearest(name, names));
}

ReferenceLibrary driver_of_ones_own(const std::string& text) {
  const std::size_t equals = text.find('=');
  std::istringstream words(text.substr(equals + 1));
  const CommandLine command{std::istream_iterator<std::string>(words), {}};
  if (equals == 0 || command.empty())
    throw Error("--beside {}: write a driver of your own as NAME=COMMAND, as in mine=./driver",
                text);
  return {text.substr(0, equals),
          {},
          [command](const std::string& socket, int world, const std::string& folder) {
            return one_a_rank(command, socket, world, folder);
          }};
}

/// Ranks of a library, under a keeper of their programs.
class LibraryRanks : public ConnectedRanks {
 public:
  LibraryRanks(std::vector<std::unique_ptr<JsonLine>> lines,
               std::unique_ptr<SubprocessGroup> programs)
      : ConnectedRanks(std::move(lines)), programs_(std::move(programs)) {}
  ~LibraryRanks() override {
    if (!connected()) programs_->wait(last_words_s);  // once all have ended well, they end too
  }

  void read(RankEvents& events) override {
    programs_->read();
    ConnectedRanks::read(events);
  }

 protected:
  std::string cause_of_end() override { return programs_->cause_of_end(); }

 private:
  std::unique_ptr<SubprocessGroup> programs_;
};

std::filesystem::path new_folder() {
  std::string name = "/dev/shm/ringside-bench-XXXXXX";
  if (access("/dev/shm", W_OK) != 0)
    name = (std::filesystem::temp_directory_path() / "ringside-bench-XXXXXX").string();
  if (!mkdtemp(name.data()))
    throw Error("bench comm: cannot make the folder {}: {}", name, std::strerror(errno));
  return name;
}

}  // namespace

std::vector<ReferenceLibrary> find_reference_libraries(const std::vector<std::string>& names) {
  std::vector<ReferenceLibrary> out;
  for (const std::string& name : names) {
    if (name == installed) {
      for (const Known& known : known_libraries())
        if (has_module(known.driver)) out.push_back(beside(known));
      if (out.empty())
        throw Error(
            "--beside installed: this build has no driver of another library; install "
            "libopenmpi-dev, libmpich-dev with mpich, or libgloo-dev, and build again");
    } else {
      out.push_back(name.find('=') == std::string::npos ? named(name) : driver_of_ones_own(name));
    }
  }
  for (auto one = out.begin(); one != out.end(); ++one)
    if (std::any_of(out.begin(), one,
                    [&](const ReferenceLibrary& other) { return other.name == one->name; }))
      throw Error("--beside: {} is named twice; leave one out", one->name);
  return out;
}

std::unique_ptr<RankGroup> start_reference_library(const ReferenceLibrary& library, int world,
                                                   const RankProgram& program, Patience patience) {
  const std::string socket = "ringside-bench-" + ps::draw_token();
  LocalListener listener(socket);
  const std::filesystem::path folder = new_folder();
  auto programs = std::make_unique<SubprocessGroup>(
      program, library.programs(socket, world, folder.string()), folder);
  std::vector<std::unique_ptr<JsonLine>> lines;
  WaitingTime waited(seconds_now(), 2 * accept_nap_s);
  while (std::ssize(lines) < world) {
    if (const auto rank = listener.accept()) {
      lines.push_back(std::make_unique<JsonLine>(*rank, longest_line));
      continue;
    }
    if (patience.interrupted()) throw Error("interrupted");
    if (programs->wait(accept_nap_s))
      throw Error("bench comm: {} does not start: {}", library.name, programs->cause_of_end());
    if (waited.seconds(seconds_now()) > patience.timeout_s)
      throw Error("bench comm: {}: {} of {} ranks have come within {} s (--timeout)", library.name,
                  lines.size(), world, patience.timeout_s);
  }
  return std::make_unique<RankGroup>(
      "bench comm: " + library.name,
      std::make_unique<LibraryRanks>(std::move(lines), std::move(programs)), world,
      std::move(patience));
}

}  // namespace ringside::tools::bench
