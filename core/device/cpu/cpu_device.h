// The CPU as a device.
#pragma once

#include <memory>
#include <string>

#include "core/device/device.h"

namespace ringside {

/// Makes a device that computes with `threads` threads. Operations are not queued: an operation has
/// run when its kernel returns. Memory comes from two arenas (core/device/cpu/arena.h), one of
/// which is the symmetric heap. With `all_symmetric` all memory is there, so that ranks read each
/// other's activations where they lie, as the stages of a pipeline do.
std::unique_ptr<Device> make_cpu_device(int threads, bool all_symmetric = false);

/// The instructions for which the kernels of a CPU device were compiled, and those that oneDNN
/// uses: "vectors of 32 bytes, oneDNN with AVX2".
std::string cpu_instructions();

}  // namespace ringside
