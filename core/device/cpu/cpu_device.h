// The CPU as a device.
#pragma once

#include <memory>

#include "core/device/device.h"

namespace ringside {

/// Computes with `threads` threads on the calling thread's behalf, at once: every operation has
/// run when its kernel returns. Memory comes from two arenas (core/device/cpu/arena.h), one of
/// them the symmetric heap.
std::unique_ptr<Device> make_cpu_device(int threads);

}  // namespace ringside
