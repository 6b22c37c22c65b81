// The CPU as a device.
#pragma once

#include <memory>
#include <string>

#include "core/device/device.h"

namespace ringside {

/// Makes a device that computes with `threads` threads. Operations are not queued: an operation has
/// run when its kernel returns. Memory comes from two arenas (core/device/cpu/arena.h), one of
/// which is the symmetric heap.
std::unique_ptr<Device> make_cpu_device(int threads);

/// The instructions for which the kernels of a CPU device were compiled, and those that oneDNN
/// uses: "vectors of 32 bytes, oneDNN with AVX2".
std::string cpu_instructions();

}  // namespace ringside
