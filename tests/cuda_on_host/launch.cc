// Runs kernels on the stream's thread, one block after another. A fiber runs threads of the block
// in turn until one of them waits for others; then another fiber goes on. So kernels without
// barriers are plain loops.
#include <cxxabi.h>

#include <array>
#include <deque>
#include <memory>
#include <vector>

#include "tests/cuda_on_host/driver.h"
#include "tests/cuda_on_host/fiber.h"
#include "tests/cuda_on_host/queue.h"
#include "tests/cuda_on_host/stream.h"

constinit thread_local uint3 threadIdx{0, 0, 0}, blockIdx{0, 0, 0};
constinit thread_local dim3 blockDim{1, 1, 1}, gridDim{1, 1, 1};

namespace cuda_on_host {
namespace {

constexpr int max_threads = 1024;

bool is_same(Site a, Site b) { return a.file == b.file && a.line == b.line; }

// Runs the kernels of one stream, block by block.
class Runner {
 public:
  static Runner& of_this_thread() {
    static thread_local Runner runner;
    return runner;
  }

  void run_grid(const dim3& grid, const dim3& block, const char* type,
                const std::function<void()>& thread);
  void wait_for_block(Site site);
  const std::uint64_t* wait_for_warp(unsigned mask, std::uint64_t brought, Site site);
  int lane() const { return current_ % 32; }

 private:
  struct Warp {
    // Two buffers, used in turn, because lanes may still read the values of the last exchange.
    std::array<std::array<std::uint64_t, 32>, 2> brought;
    int turn = 0;
    unsigned mask = 0, arrived = 0;  // the lanes that must come, the lanes that came and wait
    Site site{};
  };

  static void run_fiber();
  void run_block();
  void run_next_thread();
  /// Runs other threads of the block until the calling thread may go on.
  void suspend();
  /// Switches from the running fiber `self` to a fiber that can run, or to `main_` if all threads
  /// of the block have ended.
  void leave(Fiber& self);
  uint3 position(int thread) const;
  [[noreturn]] void fail_at(Site site, int thread, const char* cause) const;
  /// Ends the program because threads wait, but none can run.
  [[noreturn]] void fail_waiting() const;

  const std::function<void()>* thread_ = nullptr;
  const char* type_ = "";
  int threads_ = 0, started_ = 0, ended_ = 0, current_ = 0;
  std::vector<Warp> warps_;
  int at_barrier_ = 0;
  Site barrier_{};
  std::deque<int> ready_;  // threads that waited and may go on
  std::array<Fiber*, max_threads> fiber_of_;

  Fiber main_;
  Fiber* running_ = nullptr;
  std::vector<std::unique_ptr<Fiber>> fibers_;
  std::vector<Fiber*> free_;
};

uint3 Runner::position(int thread) const {
  const unsigned i = static_cast<unsigned>(thread);
  return {i % blockDim.x, i / blockDim.x % blockDim.y, i / blockDim.x / blockDim.y};
}

void Runner::fail_at(Site site, int thread, const char* cause) const {
  int status = 0;
  const char* type = abi::__cxa_demangle(type_, nullptr, nullptr, &status);
  fail(
      "%s:%d: thread %d of block (%u, %u, %u) %s; of %d threads %d wait at a __syncthreads() and "
      "%d have ended; kernel %s",
      site.file, site.line, thread, blockIdx.x, blockIdx.y, blockIdx.z, cause, threads_,
      at_barrier_, ended_, type ? type : type_);
}

void Runner::fail_waiting() const {
  for (int i = 0; i < threads_; i += 32) {
    const Warp& warp = warps_[static_cast<std::size_t>(i / 32)];
    if (warp.arrived != 0)
      fail_at(warp.site, i + std::countr_zero(warp.arrived), "waits for lanes that do not come");
  }
  fail_at(barrier_, current_, "ran last, and others wait at a barrier that not all threads reach");
}

void Runner::run_grid(const dim3& grid, const dim3& block, const char* type,
                      const std::function<void()>& thread) {
  gridDim = grid;
  blockDim = block;
  thread_ = &thread;
  type_ = type;
  threads_ = static_cast<int>(block.x * block.y * block.z);
  warps_.resize(max_threads / 32);
  for (unsigned z = 0; z < grid.z; ++z)
    for (unsigned y = 0; y < grid.y; ++y)
      for (unsigned x = 0; x < grid.x; ++x) {
        blockIdx = {x, y, z};
        run_block();
      }
}

void Runner::run_block() {
  started_ = ended_ = 0;
  leave(main_);
}

// The body of every fiber: it runs threads, one after another.
void Runner::run_fiber() {
  Fiber::begin();
  Runner& runner = of_this_thread();
  for (;;) {
    Fiber& self = *runner.running_;
    while (runner.started_ < runner.threads_) runner.run_next_thread();
    runner.free_.push_back(&self);
    runner.leave(self);
  }
}

void Runner::run_next_thread() {
  const int thread = started_++;
  current_ = thread;
  threadIdx = position(thread);
  (*thread_)();
  ++ended_;
}

void Runner::leave(Fiber& self) {
  Fiber* next = &main_;
  if (!ready_.empty()) {
    current_ = ready_.front();
    ready_.pop_front();
    next = fiber_of_[static_cast<std::size_t>(current_)];
    threadIdx = position(current_);
  } else if (started_ < threads_) {
    if (free_.empty()) {
      fibers_.push_back(std::make_unique<Fiber>(run_fiber));
      free_.push_back(fibers_.back().get());
    }
    next = free_.back();
    free_.pop_back();
  } else if (ended_ < threads_) {
    fail_waiting();
  }
  running_ = next;
  self.switch_to(*next);
}

void Runner::suspend() {
  fiber_of_[static_cast<std::size_t>(current_)] = running_;
  leave(*running_);
}

void Runner::wait_for_block(Site site) {
  if (at_barrier_ == 0)
    barrier_ = site;
  else if (!is_same(site, barrier_))
    fail_at(site, current_, "waits at another __syncthreads() than threads before it");
  if (++at_barrier_ < threads_) return suspend();
  at_barrier_ = 0;
  for (int i = 0; i < threads_; ++i)
    if (i != current_) ready_.push_back(i);
}

const std::uint64_t* Runner::wait_for_warp(unsigned mask, std::uint64_t brought, Site site) {
  const int lane = current_ % 32, first = current_ - lane;
  Warp& warp = warps_[static_cast<std::size_t>(first / 32)];
  if ((mask >> lane & 1) == 0) fail_at(site, current_, "is not in the mask that it waits with");
  if (threads_ - first < 32) mask &= (1u << (threads_ - first)) - 1;
  auto& all = warp.brought[static_cast<std::size_t>(warp.turn)];
  if (warp.arrived == 0) {
    warp.mask = mask;
    warp.site = site;
    all.fill(~std::uint64_t{0});
  } else if (mask != warp.mask || !is_same(site, warp.site)) {
    fail_at(site, current_, "meets lanes of its warp that wait elsewhere, or with another mask");
  }
  all[static_cast<std::size_t>(lane)] = brought;
  warp.arrived |= 1u << lane;
  if (warp.arrived != mask) {
    suspend();
  } else {
    warp.arrived = 0;
    warp.turn ^= 1;
    for (int i = 0; i < 32; ++i)
      if (i != lane && (mask >> i & 1) != 0) ready_.push_back(first + i);
  }
  return all.data();
}

}  // namespace

void wait_for_block(Site site) { Runner::of_this_thread().wait_for_block(site); }
const std::uint64_t* wait_for_warp(unsigned mask, std::uint64_t brought, Site site) {
  return Runner::of_this_thread().wait_for_warp(mask, brought, site);
}
int lane() { return Runner::of_this_thread().lane(); }

cudaError_t launch(const cudaLaunchConfig_t& config, const char* type,
                   std::function<void()> thread) {
  return call("cudaLaunchKernelEx", [&] {
    const dim3 grid = config.gridDim, block = config.blockDim;
    if (!config.stream || config.stream->queue->device != current_device())
      return cudaErrorInvalidResourceHandle;
    if (config.numAttrs != 0 || config.dynamicSmemBytes != 0) return cudaErrorNotSupported;
    if (grid.x == 0 || grid.y == 0 || grid.z == 0 || grid.x > 0x7fffffff || grid.y > 0xffff ||
        grid.z > 0xffff || block.x == 0 || block.y == 0 || block.z == 0 || block.x > 1024 ||
        block.y > 1024 || block.z > 64 || block.x * block.y * block.z > max_threads)
      return cudaErrorInvalidConfiguration;
    count(driver().launches);
    enqueue(config.stream, [grid, block, type, thread = std::move(thread)] {
      Runner::of_this_thread().run_grid(grid, block, type, thread);
    });
    return cudaSuccess;
  });
}

}  // namespace cuda_on_host

cudaError_t cudaFuncSetAttribute(const void* kernel, cudaFuncAttribute attr, int value) {
  return cuda_on_host::call(__func__, [&] {
    const int most = attr == cudaFuncAttributeMaxDynamicSharedMemorySize ? 227 << 10 : 100;
    return kernel && value >= 0 && value <= most ? cudaSuccess : cudaErrorInvalidValue;
  });
}
