// The launch of a kernel.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>

#include "core/device/cuda/runtime/check.h"
#include "core/device/cuda/runtime/context.h"

namespace ringside::cuda {

/// Makes the context's device current for this thread, because some operations may be called from
/// any thread.
inline void use(const Context& context) {
  check(cudaSetDevice(context.device.ordinal()), "cudaSetDevice");
}

/// Enqueues kernel(arguments...) on the compute stream. `name` is for error messages. A grid
/// without blocks does nothing.
template <class... Parameters, class... Arguments>
void launch(const Context& context, const char* name, void (*kernel)(Parameters...), dim3 blocks,
            dim3 threads, const Arguments&... arguments) {
  if (blocks.x == 0 || blocks.y == 0) return;
  use(context);
  cudaLaunchConfig_t config{};
  config.gridDim = blocks;
  config.blockDim = threads;
  config.stream = context.stream;
  check(cudaLaunchKernelEx(&config, kernel, static_cast<Parameters>(arguments)...), name);
}

/// The number of blocks for `work` elements at `per_block` each, but at most `most`.
inline unsigned blocks_for(std::int64_t work, std::int64_t per_block,
                           std::int64_t most = 0x7fffffff) {
  return static_cast<unsigned>(std::min((work + per_block - 1) / per_block, most));
}

}  // namespace ringside::cuda
