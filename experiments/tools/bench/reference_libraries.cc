#include "experiments/tools/bench/reference_libraries.h"

#include <fmt/format.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <iterator>
#include <sstream>

#include "core/base/error.h"
#include "core/base/module.h"
#include "core/base/nearest.h"
#include "core/base/processor.h"
#include "core/base/seconds_now.h"
#include "core/base/waiting_time.h"

namespace ringside::tools::bench {
namespace {

constexpr const char* installed = "installed";

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

/// A socket whose name is of the system's choice and no file's.
class Listener {
 public:
  Listener() : socket_(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    auto* where = reinterpret_cast<sockaddr*>(&address);
    socklen_t length = sizeof address.sun_family;
    const bool bound = socket_ >= 0 && bind(socket_, where, length) == 0;
    length = sizeof address;
    if (!bound || listen(socket_, SOMAXCONN) != 0 || getsockname(socket_, where, &length) != 0) {
      const int cause = errno;
      if (socket_ >= 0) close(socket_);
      throw Error("bench comm: no socket for the ranks of other libraries: {}",
                  std::strerror(cause));
    }
    name_.assign(address.sun_path + 1, length - offsetof(sockaddr_un, sun_path) - 1);
  }
  ~Listener() { close(socket_); }
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;

  const std::string& name() const { return name_; }
  /// The next rank; -1 if none comes within `milliseconds`. Programs of other users do not count.
  int accept(int milliseconds) const {
    pollfd polled{socket_, POLLIN, 0};
    poll(&polled, 1, milliseconds);
    const int rank = accept4(socket_, nullptr, nullptr, SOCK_CLOEXEC);
    ucred who{};
    socklen_t length = sizeof who;
    if (rank < 0) return -1;
    if (getsockopt(rank, SOL_SOCKET, SO_PEERCRED, &who, &length) == 0 && who.uid == geteuid())
      return rank;
    close(rank);
    return -1;
  }

 private:
  int socket_;
  std::string name_;
};

class LibraryProcesses : public RankProcesses {
 public:
  LibraryProcesses(const std::vector<CommandLine>& programs, const std::filesystem::path& folder)
      : programs_(programs, folder) {}

  void look() override { programs_.listen(); }
  std::string cause_of_end(int) override {
    programs_.wait(5);  // a keeper hears first which rank has ended, and then ends the others
    return programs_.last_words();
  }
  void wait_for_end() override { programs_.wait(2); }
  bool ended() { return programs_.wait(0); }

 private:
  SubprocessGroup programs_;
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
                                                   Patience patience) {
  const Listener listener;
  const std::filesystem::path folder = new_folder();
  auto processes = std::make_unique<LibraryProcesses>(
      library.programs(listener.name(), world, folder.string()), folder);
  std::vector<int> sockets;
  const auto stop_if = [&](bool bad, const std::string& why) {
    if (!bad) return;
    for (const int socket : sockets) close(socket);
    throw Error("{}", why);
  };
  WaitingTime waited(seconds_now(), 0.2);
  while (std::ssize(sockets) < world) {
    if (const int rank = listener.accept(100); rank >= 0) {
      sockets.push_back(rank);
      continue;
    }
    stop_if(patience.interrupted(), "interrupted");
    if (processes->ended())
      stop_if(true, fmt::format("bench comm: {} does not start: {}", library.name,
                                processes->cause_of_end(0)));
    stop_if(waited.seconds(seconds_now()) > patience.timeout_s,
            fmt::format("bench comm: {}: {} of {} ranks have come within {} s (--timeout)",
                        library.name, sockets.size(), world, patience.timeout_s));
  }
  return std::make_unique<RankGroup>("bench comm: " + library.name, std::move(sockets),
                                     std::move(processes), std::move(patience));
}

}  // namespace ringside::tools::bench
