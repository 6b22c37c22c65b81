// GPUs through CUDA: what the rest of the project sees of them. The device itself is a module
// (core/device/cuda/module), loaded on demand, so that one program runs with and without GPUs.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/device/device.h"

namespace ringside::cuda {

struct Gpu {
  std::string name;
  int major = 0, minor = 0;  // compute capability
  int multiprocessors = 0;
  std::int64_t memory = 0;  // bytes
  bool usable = false;      // new enough for the kernels
};

/// What there is on this machine. Versions as their libraries number them ("13.0"), empty where a
/// library is not there; `cudnn` also where the kernels were built without it.
struct Machine {
  bool built = false;  // the module is beside the program
  std::string driver, runtime, cublaslt, cudnn;
  std::vector<Gpu> gpus;
  std::string cause;  // why no GPU can be used, and what to do about it; empty if one can
};

/// Looks; never throws. Does not take memory of any GPU.
Machine look_at_machine();

struct Options {
  int ordinal = 0;
  /// Products of fp32 with TF32's 10 bits of mantissa, on tensor cores.
  bool tf32 = false;
};

/// Asked while the host waits for the device, again and again; throws Error to end the wait.
class Watch {
 public:
  virtual ~Watch() = default;
  virtual void check() = 0;
};

/// One stream computes, in order; what else runs beside it has streams of its own. All of the
/// device but `kernels()` with scratch memory is safe from any thread. Everything that blocks the
/// host asks the watches, and throws Error that names the failing call when CUDA fails.
class CudaDevice : public Device {
 public:
  bool runs_behind() const override { return true; }
  virtual int ordinal() const = 0;
  /// A cudaStream_t.
  virtual void* compute_stream() const = 0;
  /// The end of what is enqueued now on that stream (a cudaStream_t of this device).
  virtual Mark mark_on(void* stream) = 0;
  /// Later work of `stream` waits for the mark; does not block.
  virtual void wait_on(void* stream, const Mark& mark) = 0;
  /// Whether the mark has been reached; does not block.
  virtual bool reached(const Mark& mark) = 0;
  /// Not owned; until unwatch(), which must come before the watch's end.
  virtual void watch(Watch& watch) = 0;
  virtual void unwatch(Watch& watch) = 0;
};

/// Throws Error that says what is missing and what to install, or that there is no such GPU.
std::unique_ptr<CudaDevice> make_cuda_device(const Options& options);

/// The device as what it is. Throws Error if it is no GPU.
CudaDevice& cuda_device(Device& device);

}  // namespace ringside::cuda
