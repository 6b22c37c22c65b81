// A pool of CUDA events, because making an event is slow.
#pragma once

#include <cuda_runtime.h>

#include <mutex>
#include <utility>
#include <vector>

namespace ringside::cuda {

/// take() makes an event on the caller's current device, or hands out one that was given back. So a
/// pool may serve one device only. Thread-safe. The pool must outlive its events.
class EventPool {
 public:
  /// `flags` is cudaEventDefault (events have a time) or cudaEventDisableTiming.
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

/// Marks the end of the work that is enqueued on a stream when the Event is made. An Event may be
/// destroyed, and its CUDA event reused, before the stream reaches that point: streams that hold()
/// has told to wait still wait for that point.
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
  /// Whether the event has been reached. Does not block. Throws Error if earlier work has failed.
  bool reached() const;
  /// Makes later work of `stream` wait for the event. Does not block.
  void hold(cudaStream_t stream) const;

 private:
  EventPool* pool_;
  cudaEvent_t event_;
};

}  // namespace ringside::cuda
