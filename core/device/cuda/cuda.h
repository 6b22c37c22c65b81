// GPUs through CUDA, as the rest of the project sees them. The device itself is in a module
// (core/device/cuda/module) that is loaded on demand, so that the same program runs with and
// without GPUs.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/device/device.h"

namespace ringside::cuda {

struct Gpu {
  std::string name;
  std::string uuid;          // as nvidia-smi writes it: the same for all processes of the machine
  int major = 0, minor = 0;  // compute capability
  int multiprocessors = 0;
  std::int64_t memory = 0;  // bytes
  bool usable = false;      // whether the GPU is new enough for our kernels
};

/// The GPUs, drivers and libraries of this machine. Versions are written as the libraries number
/// them ("13.0"), and are empty if the library is missing. `cudnn` is also empty if the kernels
/// were built without cuDNN.
struct Machine {
  bool built = false;  // whether the module is beside the program
  std::string driver, runtime, cublaslt, cudnn;
  std::vector<Gpu> gpus;
  std::string cause;  // why no GPU can be used, and what to do; empty if one can be used
};

/// Looks at this machine. Never throws, and takes no memory on any GPU.
Machine look_at_machine();

struct Options {
  int ordinal = 0;
  /// Multiply fp32 on tensor cores as TF32, with 10 bits of mantissa.
  bool tf32 = false;
};

/// A condition that ends waits: check() is called repeatedly while the host waits for the device,
/// and ends the wait by throwing Error.
class Watch {
 public:
  virtual ~Watch() = default;
  virtual void check() = 0;
};

/// A GPU. One stream computes, in order; copies and communication have streams of their own, which
/// run at the same time. All functions are thread-safe, except those of `kernels()` that need
/// scratch memory. Every function that blocks the host checks the watches meanwhile. Throws Error
/// that names the failing call if CUDA fails.
class CudaDevice : public Device {
 public:
  bool runs_behind() const override { return true; }
  virtual int ordinal() const = 0;
  /// The stream for compute, a cudaStream_t.
  virtual void* compute_stream() const = 0;
  /// Records the end of what is enqueued so far on `stream` (a cudaStream_t of this device).
  virtual Mark mark_on(void* stream) = 0;
  /// Makes later work of `stream` wait for the mark. Does not block.
  virtual void wait_on(void* stream, const Mark& mark) = 0;
  /// Whether the mark has been reached. Does not block.
  virtual bool reached(const Mark& mark) = 0;
  /// Adds a watch, which is not owned. unwatch() must be called before the watch is destroyed.
  virtual void watch(Watch& watch) = 0;
  virtual void unwatch(Watch& watch) = 0;
};

/// Makes the device. Throws Error that says what is missing and what to install, or that the
/// machine has no such GPU.
std::unique_ptr<CudaDevice> make_cuda_device(const Options& options);

/// Returns `device` as a CudaDevice. Throws Error if it is not a GPU.
CudaDevice& cuda_device(Device& device);

}  // namespace ringside::cuda
