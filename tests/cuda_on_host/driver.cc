// Devices, errors and counters of the CUDA runtime on the host, and the functions of control.h.
#include "tests/cuda_on_host/driver.h"

#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <iterator>
#include <map>
#include <mutex>

#include "nvtx3/nvToolsExt.h"
#include "tests/cuda_on_host/control.h"

namespace cuda_on_host {
namespace {

struct Failures {
  std::mutex mutex;
  std::map<std::string, std::deque<cudaError_t>, std::less<>> of;
  std::atomic<int> pending{0};
};

Failures& failures() {
  static auto& failures = *new Failures;  // outlives threads that are not joined
  return failures;
}

struct Thread {
  cudaError_t last_error = cudaSuccess;
  int device = 0;
  bool is_stream = false;
  std::vector<std::string> ranges;
};

Thread& this_thread() {
  static thread_local Thread thread;
  return thread;
}

constexpr struct {
  cudaError_t error;
  const char *name, *text;
} error_texts[] = {
    {cudaSuccess, "cudaSuccess", "no error"},
    {cudaErrorInvalidValue, "cudaErrorInvalidValue", "invalid argument"},
    {cudaErrorMemoryAllocation, "cudaErrorMemoryAllocation", "out of memory"},
    {cudaErrorInitializationError, "cudaErrorInitializationError", "initialization error"},
    {cudaErrorInvalidConfiguration, "cudaErrorInvalidConfiguration",
     "invalid configuration argument"},
    {cudaErrorInsufficientDriver, "cudaErrorInsufficientDriver",
     "CUDA driver version is insufficient for CUDA runtime version"},
    {cudaErrorDevicesUnavailable, "cudaErrorDevicesUnavailable",
     "CUDA-capable device(s) is/are busy or unavailable"},
    {cudaErrorNoDevice, "cudaErrorNoDevice", "no CUDA-capable device is detected"},
    {cudaErrorInvalidDevice, "cudaErrorInvalidDevice", "invalid device ordinal"},
    {cudaErrorNoKernelImageForDevice, "cudaErrorNoKernelImageForDevice",
     "no kernel image is available for execution on the device"},
    {cudaErrorECCUncorrectable, "cudaErrorECCUncorrectable", "uncorrectable ECC error encountered"},
    {cudaErrorInvalidResourceHandle, "cudaErrorInvalidResourceHandle", "invalid resource handle"},
    {cudaErrorNotReady, "cudaErrorNotReady", "device not ready"},
    {cudaErrorIllegalAddress, "cudaErrorIllegalAddress",
     "an illegal memory access was encountered"},
    {cudaErrorLaunchOutOfResources, "cudaErrorLaunchOutOfResources",
     "too many resources requested for launch"},
    {cudaErrorLaunchTimeout, "cudaErrorLaunchTimeout", "the launch timed out and was terminated"},
    {cudaErrorMisalignedAddress, "cudaErrorMisalignedAddress", "misaligned address"},
    {cudaErrorLaunchFailure, "cudaErrorLaunchFailure", "unspecified launch failure"},
    {cudaErrorNotPermitted, "cudaErrorNotPermitted", "operation not permitted"},
    {cudaErrorNotSupported, "cudaErrorNotSupported", "operation not supported"},
    {cudaErrorSystemDriverMismatch, "cudaErrorSystemDriverMismatch",
     "system has unsupported display driver / cuda driver combination"},
    {cudaErrorUnknown, "cudaErrorUnknown", "unknown error"},
};

const auto* find_text(cudaError_t error) {
  const auto* found = std::find_if(std::begin(error_texts), std::end(error_texts),
                                   [&](const auto& candidate) { return candidate.error == error; });
  return found == std::end(error_texts) ? nullptr : found;
}

bool is_device(int device) { return device >= 0 && device < driver().device_count; }

}  // namespace

Driver& driver() {
  static auto& driver = *new Driver;
  return driver;
}

bool Device::take(std::int64_t bytes) {
  std::int64_t now = used;
  do {
    if (now + bytes > driver().memory) return false;
  } while (!used.compare_exchange_weak(now, now + bytes));
  return true;
}

cudaError_t begin_call(const char* name) {
  if (this_thread().is_stream) return cudaErrorNotPermitted;
  if (failures().pending.load(std::memory_order_relaxed) == 0) return cudaSuccess;
  const std::lock_guard lock(failures().mutex);
  const auto found = failures().of.find(name);
  if (found == failures().of.end() || found->second.empty()) return cudaSuccess;
  const cudaError_t error = found->second.front();
  found->second.pop_front();
  --failures().pending;
  return error;
}

cudaError_t end_call(cudaError_t status) {
  if (status != cudaSuccess) this_thread().last_error = status;
  return status;
}

int current_device() { return this_thread().device; }
void become_stream_thread() { this_thread().is_stream = true; }

void fail(const char* format, ...) {
  std::va_list arguments;
  va_start(arguments, format);
  std::fputs("cuda_on_host: ", stderr);
  std::vfprintf(stderr, format, arguments);
  std::fputc('\n', stderr);
  va_end(arguments);
  std::abort();
}

Counters counters() {
  const Driver& d = driver();
  return {d.mallocs, d.host_mallocs, d.host_waits, d.pageable_copies,
          d.copies,  d.launches,     d.streams,    d.events};
}

void set_device_count(int count) { driver().device_count = std::clamp(count, 0, max_devices); }
void set_memory(std::int64_t bytes) { driver().memory = bytes; }

void fail_next(const std::string& call, cudaError_t error) {
  const std::lock_guard lock(failures().mutex);
  failures().of[call].push_back(error);
  ++failures().pending;
}

std::vector<std::string> open_ranges() { return this_thread().ranges; }

}  // namespace cuda_on_host

using namespace cuda_on_host;

cudaError_t cudaGetLastError() { return std::exchange(this_thread().last_error, cudaSuccess); }
cudaError_t cudaPeekAtLastError() { return this_thread().last_error; }
const char* cudaGetErrorName(cudaError_t error) {
  const auto* text = find_text(error);
  return text ? text->name : "unrecognized error code";
}
const char* cudaGetErrorString(cudaError_t error) {
  const auto* text = find_text(error);
  return text ? text->text : "unrecognized error code";
}

cudaError_t cudaGetDeviceCount(int* count) {
  return call(__func__, [&] {
    if (driver().device_count == 0) return cudaErrorNoDevice;
    *count = driver().device_count;
    return cudaSuccess;
  });
}

cudaError_t cudaSetDevice(int device) {
  return call(__func__, [&] {
    if (driver().device_count == 0) return cudaErrorNoDevice;
    if (!is_device(device)) return cudaErrorInvalidDevice;
    this_thread().device = device;
    return cudaSuccess;
  });
}

cudaError_t cudaGetDevice(int* device) {
  return call(__func__, [&] {
    if (driver().device_count == 0) return cudaErrorNoDevice;
    *device = current_device();
    return cudaSuccess;
  });
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* prop, int device) {
  return call(__func__, [&] {
    if (!is_device(device)) return cudaErrorInvalidDevice;
    *prop = {
        .name = "CUDA on the host",
        .uuid = {{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, static_cast<char>(device)}},
        .totalGlobalMem = static_cast<std::size_t>(driver().memory.load()),
        .sharedMemPerBlock = 48 << 10,
        .warpSize = 32,
        .maxThreadsPerBlock = 1024,
        .maxThreadsPerMultiProcessor = 2048,
        .major = 9,
        .minor = 0,
        .multiProcessorCount = 4,
        .pciBusID = device + 1,
        .pciDeviceID = 0,
        .pciDomainID = 0,
        .l2CacheSize = 50 << 20,
        .memoryPoolsSupported = 1,
        .sharedMemPerMultiprocessor = 228 << 10,
        .sharedMemPerBlockOptin = 227 << 10};
    return cudaSuccess;
  });
}

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attr, int device) {
  return call(__func__, [&] {
    cudaDeviceProp prop;
    if (const auto status = cudaGetDeviceProperties(&prop, device); status != cudaSuccess)
      return status;
    switch (attr) {
      case cudaDevAttrMaxThreadsPerBlock:
        *value = prop.maxThreadsPerBlock;
        break;
      case cudaDevAttrWarpSize:
        *value = prop.warpSize;
        break;
      case cudaDevAttrMultiProcessorCount:
        *value = prop.multiProcessorCount;
        break;
      case cudaDevAttrL2CacheSize:
        *value = prop.l2CacheSize;
        break;
      case cudaDevAttrMaxThreadsPerMultiProcessor:
        *value = prop.maxThreadsPerMultiProcessor;
        break;
      case cudaDevAttrComputeCapabilityMajor:
        *value = prop.major;
        break;
      case cudaDevAttrComputeCapabilityMinor:
        *value = prop.minor;
        break;
      case cudaDevAttrMaxSharedMemoryPerMultiprocessor:
        *value = static_cast<int>(prop.sharedMemPerMultiprocessor);
        break;
      case cudaDevAttrMaxSharedMemoryPerBlockOptin:
        *value = static_cast<int>(prop.sharedMemPerBlockOptin);
        break;
      case cudaDevAttrMemoryPoolsSupported:
        *value = prop.memoryPoolsSupported;
        break;
      default:
        return cudaErrorInvalidValue;
    }
    return cudaSuccess;
  });
}

cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  return call(__func__, [&] {
    *least = 0;
    *greatest = -5;
    return cudaSuccess;
  });
}

cudaError_t cudaDriverGetVersion(int* version) {
  return call(__func__, [&] {
    *version = CUDART_VERSION;
    return cudaSuccess;
  });
}
cudaError_t cudaRuntimeGetVersion(int* version) {
  return call(__func__, [&] {
    *version = CUDART_VERSION;
    return cudaSuccess;
  });
}

int nvtxRangePushA(const char* name) {
  this_thread().ranges.emplace_back(name);
  return static_cast<int>(this_thread().ranges.size()) - 1;
}
int nvtxRangePop() {
  auto& ranges = this_thread().ranges;
  if (ranges.empty()) fail("nvtxRangePop: no range is open on this thread");
  ranges.pop_back();
  return static_cast<int>(ranges.size());
}
