// Streams of the CUDA runtime on the host: each is a thread that runs its tasks in order.
#pragma once

#include <functional>

#include "cuda_runtime.h"

/// Runs the task on the stream's thread, after all tasks that were enqueued before. Does not block.
/// The task may block, but must not call the CUDA runtime. A null stream ends the program,
/// because it is a mistake of the caller: the functions of the runtime check their arguments before
/// they call enqueue().
void enqueue(cudaStream_t stream, std::function<void()> task);
