#include "core/device/cuda/runtime/event_pool.h"

#include "core/device/cuda/runtime/check.h"

namespace ringside::cuda {

EventPool::~EventPool() {
  for (cudaEvent_t event : free_) cudaEventDestroy(event);
}

cudaEvent_t EventPool::take() {
  {
    std::lock_guard lock(mutex_);
    if (!free_.empty()) {
      const cudaEvent_t event = free_.back();
      free_.pop_back();
      return event;
    }
  }
  cudaEvent_t event = nullptr;
  check(cudaEventCreateWithFlags(&event, flags_), "cudaEventCreateWithFlags");
  return event;
}

void EventPool::give_back(cudaEvent_t event) {
  std::lock_guard lock(mutex_);
  free_.push_back(event);
}

Event::Event(EventPool& pool, cudaStream_t stream) : pool_(&pool), event_(pool.take()) {
  const cudaError_t status = cudaEventRecord(event_, stream);
  if (status != cudaSuccess) pool.give_back(event_);
  check(status, "cudaEventRecord");
}

bool Event::reached() const {
  const cudaError_t status = cudaEventQuery(event_);
  if (status == cudaErrorNotReady) {
    cudaGetLastError();  // clears the error, which CUB would otherwise take for its own
    return false;
  }
  check(status, "cudaEventQuery");
  return true;
}

void Event::hold(cudaStream_t stream) const {
  check(cudaStreamWaitEvent(stream, event_, 0), "cudaStreamWaitEvent");
}

}  // namespace ringside::cuda
