#include <fmt/format.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <memory>
#include <numeric>
#include <thread>

#include "core/base/error.h"
#include "core/base/explain.h"
#include "core/comm/store.h"
#include "core/device/cpu/cpu_device.h"
#include "experiments/benchmark/comm_measured.h"
#include "peer/comm/shm/communicator.h"
#include "peer/comm/sum.h"

namespace ringside {
namespace {

/// Waits for all processes, and ends the others if one has failed: they would wait for it until
/// their deadlines. Returns whether all have succeeded.
bool all_succeed(const std::vector<pid_t>& processes) {
  bool succeeded = true;
  for (auto process = processes.begin(); process != processes.end(); ++process) {
    int status = 0;
    pid_t ended = -1;
    do ended = waitpid(*process, &status, 0);
    while (ended < 0 && errno == EINTR);
    if (ended == *process && WIFEXITED(status) && WEXITSTATUS(status) == 0) continue;
    if (succeeded)
      for (auto other = process + 1; other != processes.end(); ++other) kill(*other, SIGKILL);
    succeeded = false;
  }
  return succeeded;
}

void end_processes(const std::vector<pid_t>& processes) {
  for (const pid_t process : processes) kill(process, SIGKILL);
  all_succeed(processes);
}

/// Throws Error if one of the processes has ended, which none does before rank 0.
void check_alive(const std::vector<pid_t>& processes) {
  for (std::size_t i = 0; i < processes.size(); ++i) {
    siginfo_t info{};
    if (waitid(P_PID, static_cast<id_t>(processes[i]), &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
        info.si_pid != 0 && (info.si_code != CLD_EXITED || info.si_status != 0))
      throw Error("bench comm: rank {} ended too early", i + 1);
  }
}

class Deadline {
 public:
  explicit Deadline(double timeout_s)
      : end_(std::chrono::steady_clock::now() +
             std::chrono::duration_cast<std::chrono::steady_clock::duration>(
                 std::chrono::duration<double>(timeout_s))) {}
  bool over() const { return std::chrono::steady_clock::now() > end_; }

 private:
  std::chrono::steady_clock::time_point end_;
};

/// What the processes of a world share.
struct Shared {
  std::atomic<int> arrived;
  double begin[most_processes], end[most_processes];
  std::int64_t wrong[most_processes];
  std::atomic<int> written;  // entries of the store
  struct {
    char key[128], value[64];
  } values[64];

  /// Waits until all `ranks` ranks have come `round` times. Throws Error if one does not come, or
  /// if one of the processes `others` has ended.
  void meet(int ranks, int round, double timeout_s, const std::vector<pid_t>& others) {
    ++arrived;
    const Deadline deadline(timeout_s);
    for (int looks = 0; arrived.load() < ranks * round; ++looks) {
      std::this_thread::yield();
      if (looks % 1000 != 999) continue;
      check_alive(others);
      if (deadline.over())
        throw Error("bench comm: waited {} s for the other ranks; one of them failed or hangs",
                    timeout_s);
    }
  }
};

/// Rank 0 alone writes.
class SharedStore : public Store {
 public:
  explicit SharedStore(Shared& shared) : shared_(shared) {}
  void set(const std::string& key, const std::string& value) override {
    const int index = shared_.written.load();
    if (index == std::ssize(shared_.values)) throw Error("bench comm: too many groups");
    std::snprintf(shared_.values[index].key, sizeof shared_.values[0].key, "%s", key.c_str());
    std::snprintf(shared_.values[index].value, sizeof shared_.values[0].value, "%s", value.c_str());
    ++shared_.written;
  }
  std::string get(const std::string& key, double timeout_s) override {
    const Deadline deadline(timeout_s);
    while (!deadline.over()) {
      for (int i = 0; i < shared_.written.load(); ++i)
        if (key == shared_.values[i].key) return shared_.values[i].value;
      std::this_thread::yield();
    }
    throw Error("bench comm: no rank set {} within {} s", key, timeout_s);
  }

 private:
  Shared& shared_;
};

int calls_of(std::int64_t bytes) {
  if (bytes <= 1 << 20) return 200;
  return bytes <= 16 << 20 ? 40 : 11;
}

/// One rank of one world: all operations and sizes.
class ShmRank {
 public:
  /// `others` are the processes that this rank has started.
  ShmRank(const CommBench& bench, Shared& shared, int rank, int world,
          const std::vector<pid_t>& others)
      : bench_(bench),
        shared_(shared),
        rank_(rank),
        world_(world),
        others_(others),
        store_(shared),
        device_(make_cpu_device(1)) {
    for (const Algorithm algorithm : bench.algorithms)
      communicators_.push_back(peer::make_shm_communicator(
          *device_, store_, {fmt::format("bench {}", name_of(algorithm)), rank, world, algorithm},
          bench.timeout_s));
  }

  void run(const std::function<void(const CommRow&)>& report) {
    for (const std::string& name : bench_.operations)
      for (const std::int64_t size : bench_.sizes)
        for (const CommRow& row : measure(find_comm_operation(name), size)) report(row);
  }

 private:
  /// The rows of all algorithms.
  std::vector<CommRow> measure(const CommOperation& operation, std::int64_t size) {
    const std::int64_t count = count_of(operation, size, world_);
    const Tensor array = device_->tensor({count}, MemoryKind::communication);
    const Tensor part = array.range(rank_ * (count / world_), count / world_);
    const bool bounded = operation.name == "all_reduce";
    std::vector<std::vector<double>> times(communicators_.size());
    std::vector<std::int64_t> wrong(communicators_.size());
    std::vector<double> bounds;
    const int calls = calls_of(size), warm_up = std::max(1, calls / 20);
    for (int call = -warm_up; call < calls; ++call) {
      for (std::size_t i = 0; i < communicators_.size(); ++i) {
        // Another algorithm begins each time: whoever comes after the bound has to wait for threads
        // that sleep.
        const std::size_t a =
            (i + static_cast<std::size_t>(call + warm_up)) % communicators_.size();
        operation.fill(array, part, rank_);
        const double us =
            time_us([&] { operation.begin(*communicators_[a], array, part)->wait(); });
        if (call >= 0) times[a].push_back(us);
        if (call < 0 || call + 1 == calls)
          wrong[a] += sum_over_ranks(operation.count_wrong(array, part, rank_, world_));
      }
      if (!bounded) continue;
      operation.fill(array, part, rank_);
      const double us = time_us([&] { sum_alone(array); });
      if (call >= 0) bounds.push_back(us);
    }
    std::vector<CommRow> rows;
    for (std::size_t a = 0; a < communicators_.size(); ++a) {
      CommRow& row =
          rows.emplace_back(measured(operation, bench_.algorithms[a], world_, count, times[a]));
      row.communicator = "shm";
      row.wrong = wrong[a];
      if (!bounded) continue;
      std::nth_element(bounds.begin(), bounds.begin() + std::ssize(bounds) / 2, bounds.end());
      row.bound_us = bounds[bounds.size() / 2];
    }
    return rows;
  }

  /// What an all_reduce in one pass has to do at least: adds up as many arrays as there are ranks,
  /// each as large as this rank's part, and stores the sum into all of them.
  void sum_alone(const Tensor& array) const {
    auto* first = reinterpret_cast<std::byte*>(array.data<float>());
    const auto n = static_cast<std::size_t>(array.count() / world_);
    std::vector<const std::byte*> sources;
    std::vector<std::byte*> targets;
    for (int r = 0; r < world_; ++r) {
      targets.push_back(first + static_cast<std::size_t>(r) * n * 4);
      sources.push_back(targets.back());
    }
    peer::sum_in_order(DType::f32, sources, targets, n);
  }

  double time_us(const std::function<void()>& call) {
    meet();
    shared_.begin[rank_] = device_->clock().now();
    call();
    shared_.end[rank_] = device_->clock().now();
    meet();
    const double begin = *std::max_element(shared_.begin, shared_.begin + world_);
    const double end = *std::max_element(shared_.end, shared_.end + world_);
    meet();
    return (end - begin) * 1e6;
  }

  std::int64_t sum_over_ranks(std::int64_t own) {
    shared_.wrong[rank_] = own;
    meet();
    const std::int64_t sum =
        std::accumulate(shared_.wrong, shared_.wrong + world_, std::int64_t{0});
    meet();
    return sum;
  }

  void meet() { shared_.meet(world_, ++round_, bench_.timeout_s, others_); }

  const CommBench& bench_;
  Shared& shared_;
  int rank_, world_;
  const std::vector<pid_t>& others_;
  int round_ = 0;
  SharedStore store_;
  std::unique_ptr<Device> device_;
  std::vector<std::unique_ptr<Communicator>> communicators_;
};

}  // namespace

void bench_processes(const CommBench& bench, int world, const Report& report) {
  signal(SIGCHLD, SIG_DFL);  // whoever started this program may have children ignored
  void* memory =
      mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED)
    throw Error("bench comm: no memory for {} ranks: {}", world, std::strerror(errno));
  const std::unique_ptr<void, void (*)(void*)> unmapped(
      memory, [](void* mapped) { munmap(mapped, sizeof(Shared)); });
  Shared& shared = *new (memory) Shared{};
  std::fflush(nullptr);
  std::vector<pid_t> processes;
  for (int rank = 1; rank < world; ++rank) {
    const pid_t process = fork();
    if (process == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      int code = 0;
      try {
        ShmRank(bench, shared, rank, world, {}).run([](const CommRow&) {});
      } catch (const std::exception& error) {
        fmt::print(stderr, "ringside: bench comm: rank {}: {}\n", rank, explain(error));
        code = 1;
      }
      _exit(code);
    }
    if (process < 0) {
      const int cause = errno;
      end_processes(processes);
      throw Error("bench comm: no process for rank {}: {}", rank, std::strerror(cause));
    }
    processes.push_back(process);
  }
  try {
    ShmRank(bench, shared, 0, world, processes).run(report);
  } catch (...) {
    end_processes(processes);
    throw;
  }
  if (!all_succeed(processes)) throw Error("bench comm: a rank failed; see the lines above");
}

}  // namespace ringside
