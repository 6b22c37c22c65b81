// Observation and control of the double of the CUDA runtime, for tests.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <cuda_runtime.h>

namespace cuda_on_host {

/// Counts over the whole process, since its start.
struct Counters {
  std::int64_t mallocs = 0;  // allocations of device memory, and growths of a pool
  std::int64_t host_mallocs = 0;
  /// Calls that block the host, whether or not they had to: waits for a stream, an event or a
  /// device, copies to pageable memory, frees that are not stream-ordered.
  std::int64_t host_waits = 0;
  std::int64_t pageable_copies = 0;  // whether or not they blocked
  std::int64_t copies = 0;           // copies of all kinds
  std::int64_t launches = 0;
  std::int64_t streams = 0, events = 0;  // number that were created
};
Counters counters();

/// Sets the number of devices from now on; at first there is one device with 1 GiB. Streams and
/// memory of a device that is taken away stay as they are. Throws nothing.
void set_device_count(int count);
/// Sets the memory of every device, in bytes.
void set_memory(std::int64_t bytes);

/// Makes the next call with that name ("cudaMalloc"), on any thread, do nothing and return `error`.
/// Two requests make the next two calls fail.
void fail_next(const std::string& call, cudaError_t error);

/// The names of the NVTX ranges that are open on this thread; the outermost comes first.
std::vector<std::string> open_ranges();

}  // namespace cuda_on_host
