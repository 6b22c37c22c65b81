// Events that are used again and again: making one takes long.
#pragma once

#include <cuda_runtime.h>

#include <mutex>
#include <utility>
#include <vector>

namespace ringside::cuda {

/// Of the device that is current when they are taken. Thread-safe; outlives its events.
class EventPool {
 public:
  /// cudaEventDefault (they know their time) or cudaEventDisableTiming.
  explicit EventPool(unsigned flags) : flags_(flags) {}
  ~EventPool();
  EventPool(const EventPool&) = delete;
  EventPool& operator=(const EventPool&) = delete;

  cudaEvent_t take();
  void give_back(cudaEvent_t event);

 private:
  const unsigned flags_;
  std::mutex mutex_;
  std::vector<cudaEvent_t> free_;
};

/// The end of what is enqueued on a stream now. An event may go back before it is reached: who
/// waits for it has told the driver so already.
class Event {
 public:
  Event(EventPool& pool, cudaStream_t stream);
  ~Event() {
    if (event_) pool_->give_back(event_);
  }
  Event(Event&& other) noexcept
      : pool_(other.pool_), event_(std::exchange(other.event_, nullptr)) {}
  Event& operator=(Event&& other) noexcept {
    std::swap(pool_, other.pool_);
    std::swap(event_, other.event_);
    return *this;
  }

  cudaEvent_t get() const { return event_; }
  /// Does not block; throws Error if what was enqueued before has failed.
  bool reached() const;
  /// Later work of `stream` waits for it; does not block.
  void hold(cudaStream_t stream) const;

 private:
  EventPool* pool_;
  cudaEvent_t event_;
};

}  // namespace ringside::cuda
