// Times collectives of two ranks on one host, and prints the times in the columns of nccl-tests.
// The line "bound" is for comparison with all_reduce: it has the time of the same sums without
// communication. Each rank computes a = b = a + b, where a and b are the two halves of its array.
//
//     collectives_bench [threads|processes]
//
// Every rank rewrites its array before each timed call. A call's time is counted from the moment
// when the last rank starts to the moment when the last rank ends; the median of the repeats is
// printed. The program takes about ten seconds on two cores.
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "core/base/error.h"
#include "core/device/cpu/cpu_device.h"
#include "peer/comm/shm/communicator.h"
#include "peer/comm/sum.h"

namespace ringside {
namespace {

constexpr int ranks = 2;

/// What the ranks share, whether they are threads or processes: the state of a rendezvous, the
/// times of each rank, and the keys and values of the store. At the rendezvous a rank spins until
/// the other comes; nothing is computed meanwhile.
struct Shared {
  std::atomic<int> arrived[ranks];
  double begin[ranks], end[ranks];
  std::atomic<int> written;
  struct {
    char key[64], value[64];
  } values[16];

  void meet(int rank) {
    const int round = ++arrived[rank];
    while (arrived[1 - rank] < round) std::this_thread::yield();
  }
};

class SharedStore : public Store {
 public:
  explicit SharedStore(Shared& shared) : shared_(shared) {}
  void set(const std::string& key, const std::string& value) override {
    auto& entry = shared_.values[shared_.written.load()];
    std::snprintf(entry.key, sizeof entry.key, "%s", key.c_str());
    std::snprintf(entry.value, sizeof entry.value, "%s", value.c_str());
    ++shared_.written;  // one rank writes: rank 0
  }
  std::string get(const std::string& key, double) override {
    for (;;) {
      for (int i = 0; i < shared_.written; ++i)
        if (key == shared_.values[i].key) return shared_.values[i].value;
      std::this_thread::yield();
    }
  }

 private:
  Shared& shared_;
};

/// Median microseconds of `call`, from the later begin to the later end of the two ranks.
double time_us(Shared& shared, const Clock& clock, int rank, int repeats,
               const std::function<void()>& touch, const std::function<void()>& call) {
  std::vector<double> times;
  for (int i = 0; i < repeats; ++i) {
    touch();
    shared.meet(rank);
    shared.begin[rank] = clock.now();
    call();
    shared.end[rank] = clock.now();
    shared.meet(rank);
    times.push_back(std::max(shared.end[0], shared.end[1]) -
                    std::max(shared.begin[0], shared.begin[1]));
    shared.meet(rank);
  }
  std::nth_element(times.begin(), times.begin() + repeats / 2, times.end());
  return times[static_cast<std::size_t>(repeats / 2)] * 1e6;
}

void print(int rank, std::size_t bytes, const char* operation, const char* reduction, double us,
           double bus_factor) {
  if (rank != 0) return;
  const double algbw = static_cast<double>(bytes) / us * 1e-3;
  fmt::print("{:>12} {:>12} {:>8} {:>6} {:>16} {:>10.1f} {:>8.2f} {:>8.2f}\n", bytes, bytes / 4,
             "float", reduction, operation, us, algbw, algbw * bus_factor);
}

void run_rank(Shared& shared, int rank) {
  const auto device = make_cpu_device(1);
  SharedStore store(shared);
  const auto comm = peer::make_shm_communicator(*device, store, {"bench", rank, ranks}, 60);
  const auto time = [&](int repeats, const auto& touch, const auto& call) {
    return time_us(shared, device->clock(), rank, repeats, touch, call);
  };
  for (const std::size_t bytes : {4UL << 10, 64UL << 10, 1UL << 20, 16UL << 20, 100UL << 20}) {
    const auto count = static_cast<std::int64_t>(bytes / 4);
    const Tensor array = device->tensor({count}, MemoryKind::communication);
    const Tensor part = array.range(rank * count / ranks, count / ranks);
    const auto touch = [&] {
      std::fill_n(array.data<float>(), count, static_cast<float>(rank + 1));
    };
    const int repeats = bytes <= 1UL << 20 ? 200 : bytes <= 16UL << 20 ? 30 : 9;

    // The bound: each rank sums half an array of its own and stores the sum twice.
    auto* first = reinterpret_cast<std::byte*>(array.data<float>());
    auto* second = reinterpret_cast<std::byte*>(array.data<float>() + count / 2);
    const std::byte* sources[] = {first, second};
    std::byte* targets[] = {first, second};
    print(rank, bytes, "bound", "sum",
          time(repeats, touch,
               [&] {
                 peer::sum_in_order(DType::f32, sources, targets,
                                    static_cast<std::size_t>(count / 2));
               }),
          1);
    constexpr double n = ranks;
    print(rank, bytes, "all_reduce", "sum",
          time(repeats, touch, [&] { comm->all_reduce(array)->wait(); }), 2 * (n - 1) / n);
    print(rank, bytes, "reduce_scatter", "sum",
          time(repeats, touch, [&] { comm->reduce_scatter(array, part)->wait(); }), (n - 1) / n);
    print(rank, bytes, "all_gather", "none",
          time(repeats, touch, [&] { comm->all_gather(part, array)->wait(); }), (n - 1) / n);
    print(rank, bytes, "broadcast", "none",
          time(repeats, touch, [&] { comm->broadcast(array, 0)->wait(); }), 1);
    print(rank, bytes, "send/recv", "none",
          time(repeats, touch,
               [&] { (rank == 0 ? comm->send(array, 1) : comm->recv(array, 0))->wait(); }),
          1);
  }
}

int run(const std::string& how) {
  if (how != "threads" && how != "processes")
    throw Error("'{}': ranks are threads or processes", how);
  void* memory =
      mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) throw Error("mmap: {}", std::strerror(errno));
  auto& shared = *static_cast<Shared*>(memory);
  fmt::print("{:>12} {:>12} {:>8} {:>6} {:>16} {:>10} {:>8} {:>8}\n", "size(B)", "count", "type",
             "redop", "operation", "time(us)", "algbw", "busbw");
  std::fflush(stdout);
  if (how == "threads") {
    std::thread other([&] { run_rank(shared, 1); });
    run_rank(shared, 0);
    other.join();
    return 0;
  }
  const pid_t child = fork();
  if (child < 0) throw Error("fork: {}", std::strerror(errno));
  run_rank(shared, child == 0 ? 1 : 0);
  if (child == 0) return 0;
  int status = 0;
  waitpid(child, &status, 0);
  return status == 0 ? 0 : 1;
}

}  // namespace
}  // namespace ringside

int main(int argc, char** argv) {
  try {
    return ringside::run(argc > 1 ? argv[1] : "threads");
  } catch (const std::exception& e) {
    fmt::print(stderr, "collectives_bench: {}\n", e.what());
    return 1;
  }
}
