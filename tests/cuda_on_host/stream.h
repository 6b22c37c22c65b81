// Streams of the CUDA runtime on the host: each is a thread with tasks in order.
#pragma once

#include <functional>

#include "cuda_runtime.h"

/// Runs the task on the stream's thread, after all tasks that it was given before. Does not block.
/// The task may block; it calls nothing of the CUDA runtime. Ends the program if there is no such
/// stream: whoever serves a call looks at its arguments first.
void enqueue(cudaStream_t stream, std::function<void()> task);
