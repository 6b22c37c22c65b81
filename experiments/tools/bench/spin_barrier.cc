#include "experiments/tools/bench/spin_barrier.h"

#include <fmt/format.h>
#include <unistd.h>

#include <atomic>
#include <sstream>
#include <thread>

#include "core/base/error.h"
#include "core/base/seconds_now.h"

namespace ringside::tools::bench {
namespace {

constexpr const char* barrier_key = "bench/barrier";

shm::File find_memory(Store& store, int rank, double timeout_s) {
  if (rank == 0) {
    shm::File made = shm::File::create(sizeof(std::atomic<int>), "ringside-bench");
    store.set(barrier_key, fmt::format("{} {}", getpid(), made.number()));
    return made;
  }
  std::istringstream place(store.get(barrier_key, timeout_s));
  pid_t process = 0;
  int number = -1;
  place >> process >> number;
  return shm::File::of_process(process, number);
}

}  // namespace

SpinBarrier::SpinBarrier(Store& store, int rank, int ranks, double timeout_s)
    : file_(find_memory(store, rank, timeout_s)),
      memory_(std::make_unique<shm::Mapping>(file_)),
      ranks_(ranks),
      timeout_s_(timeout_s) {}

void SpinBarrier::meet() {
  auto& arrived = *reinterpret_cast<std::atomic<int>*>(memory_->data());  // a file begins as zeros
  const int all = ranks_ * ++round_;
  ++arrived;
  const double end = seconds_now() + timeout_s_;
  for (int looks = 1; arrived.load() < all; ++looks) {
    std::this_thread::yield();
    if (looks % 1000 == 0 && seconds_now() > end)
      throw Error("waited {} s for the other ranks; one of them failed or hangs", timeout_s_);
  }
}

}  // namespace ringside::tools::bench
