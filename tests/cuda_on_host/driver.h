// A double of the CUDA driver: the machine's devices, counters of the runtime's calls, and hooks at
// the beginning and at the end of every call.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>

#include "cuda_runtime.h"

namespace cuda_on_host {

inline constexpr int max_devices = 16;

struct Device {
  std::atomic<std::int64_t> used{0};  // bytes

  /// Takes `bytes` of memory; false if less is left.
  bool take(std::int64_t bytes);
};

struct Driver {
  std::atomic<int> device_count{1};
  std::atomic<std::int64_t> memory{std::int64_t{1} << 30};
  std::array<Device, max_devices> devices;
  // count() adds in relaxed order, so that counting does not synchronise threads and thus hides no
  // data race from ThreadSanitizer.
  std::atomic<std::int64_t> mallocs{0}, host_mallocs{0}, host_waits{0}, pageable_copies{0},
      copies{0}, launches{0}, streams{0}, events{0};
};
Driver& driver();

inline void count(std::atomic<std::int64_t>& counter) {
  counter.fetch_add(1, std::memory_order_relaxed);
}

/// Returns the error with which the call must fail, or cudaSuccess. A call fails if a test asked
/// for that, or if this thread is forbidden to call the runtime.
cudaError_t begin_call(const char* name);
/// Returns `status`, and keeps an error for cudaGetLastError().
cudaError_t end_call(cudaError_t status);

/// Runs the body of a function of the runtime, between begin_call() and end_call().
template <class F>
cudaError_t call(const char* name, F&& body) {
  cudaError_t status = begin_call(name);
  if (status == cudaSuccess) status = body();
  return end_call(status);
}

int current_device();
/// Forbids this thread to call the runtime from now on.
void become_stream_thread();
/// Prints one line and ends the program.
[[noreturn]] void fail(const char* format, ...) __attribute__((format(printf, 1, 2)));

}  // namespace cuda_on_host
