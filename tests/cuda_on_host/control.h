// What tests see and set of the CUDA runtime on the host.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <cuda_runtime.h>

namespace cuda_on_host {

/// Of the whole process, since it began.
struct Counters {
  std::int64_t mallocs = 0;  // of device memory, and times that a pool grew
  std::int64_t host_mallocs = 0;
  /// Calls that block the host, whether or not they had to: waits for a stream, an event or a
  /// device, copies to pageable memory, frees that are not stream-ordered.
  std::int64_t host_waits = 0;
  std::int64_t pageable_copies = 0;  // either way
  std::int64_t copies = 0;           // all of them
  std::int64_t launches = 0;
  std::int64_t streams = 0, events = 0;  // created
};
Counters counters();

/// What there is from now on; at first one device with 1 GiB. Throws nothing; streams and memory of
/// a device that went away stay what they are.
void set_device_count(int count);
/// Of every device, in bytes.
void set_memory(std::int64_t bytes);

/// The next call of that name ("cudaMalloc"), on whatever thread, does nothing and returns `error`.
/// Asked for twice, the next two do.
void fail_next(const std::string& call, cudaError_t error);

/// Names of the NVTX ranges that are open on this thread, the outermost first.
std::vector<std::string> open_ranges();

}  // namespace cuda_on_host
