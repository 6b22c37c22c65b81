#include "experiments/tools/bench/forked_ranks.h"

#include <fmt/format.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>
#include <vector>

#include "core/base/control_group.h"
#include "core/base/error.h"
#include "core/base/error_text.h"
#include "core/launch/process_end.h"

namespace ringside::tools::bench {
namespace {

class ForkedProcesses : public RankProcesses {
 public:
  ~ForkedProcesses() override {
    for (const pid_t process : processes_)
      if (process > 0) kill(process, SIGKILL);
    for (const pid_t process : processes_)
      if (process > 0) wait_for_process(process, -1);
  }
  void add(pid_t process) { processes_.push_back(process); }

  std::string cause_of_end(int rank) override {
    const auto status = wait_for_process(processes_[static_cast<std::size_t>(rank)], 2);
    if (!status) return "its process goes on without a connection";
    processes_[static_cast<std::size_t>(rank)] = 0;
    return words_for_end(*status) + (WIFSIGNALED(*status) ? memory_.explanation() : "");
  }

  void wait_for_end() override {
    for (pid_t& process : processes_)
      if (wait_for_process(process, 2)) process = 0;
  }

 private:
  OutOfMemoryWatch memory_;
  std::vector<pid_t> processes_;  // by rank; 0: has ended
};

/// Gives each rank a core of its own if there are enough. Ranks that wait for each other in a loop
/// would otherwise stay on one core if they wake up there.
void bind_to_core(int rank, int world) {
  cpu_set_t allowed, own;
  if (sched_getaffinity(0, sizeof allowed, &allowed) != 0 || CPU_COUNT(&allowed) < world) return;
  for (int core = 0, before = rank; core < CPU_SETSIZE; ++core) {
    if (!CPU_ISSET(core, &allowed) || before-- > 0) continue;
    CPU_ZERO(&own);
    CPU_SET(core, &own);
    sched_setaffinity(0, sizeof own, &own);
    return;
  }
}

[[noreturn]] void be_rank(int socket, int rank, const ForkedRanks& forked, pid_t bench,
                          const std::function<void(int, int)>& body) {
  if (forked.own_cores) bind_to_core(rank, forked.world);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != bench) _exit(1);
  try {
    body(socket, rank);
    _exit(0);
  } catch (const std::exception& error) {
    std::string line = "error " + error_text(error);
    std::replace(line.begin(), line.end(), '\n', ' ');
    line += '\n';
    (void)!send(socket, line.data(), line.size(), MSG_NOSIGNAL);
    _exit(1);
  }
}

}  // namespace

std::unique_ptr<RankGroup> fork_ranks(const ForkedRanks& forked, Patience patience,
                                      const std::function<void(int, int)>& body) {
  auto processes = std::make_unique<ForkedProcesses>();
  std::vector<int> sockets;
  const pid_t bench = getpid();
  std::fflush(nullptr);
  for (int rank = 0; rank < forked.world; ++rank) {
    int ends[2];
    const bool paired = socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0;
    const pid_t process = paired ? fork() : -1;
    if (process == 0) {
      // An end of the bench that a rank kept would hide the end of the bench from the others.
      for (const int socket : sockets) close(socket);
      close(ends[0]);
      be_rank(ends[1], rank, forked, bench, body);
    }
    const int cause = errno;
    if (paired) close(ends[1]);
    if (paired) sockets.push_back(ends[0]);
    if (process < 0) {
      for (const int socket : sockets) close(socket);
      throw Error("{}: no process for rank {}: {}{}", forked.name, rank, std::strerror(cause),
                  limit_hint(std::strerror(cause)));
    }
    processes->add(process);
  }
  return std::make_unique<RankGroup>(forked.name, std::move(sockets), std::move(processes),
                                     std::move(patience), forked.ranks);
}

}  // namespace ringside::tools::bench
