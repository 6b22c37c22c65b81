// Marks of streams, and when they were reached on the host's clock.
#pragma once

#include <cuda_runtime.h>

#include <memory>
#include <mutex>

#include "core/device/cuda/module/events.h"
#include "core/device/cuda/module/waits.h"

namespace ringside::cuda {

/// std::chrono's steady clock, which counts from the host's start, as the CPU device's: all ranks
/// of a host agree.
class SteadyClock final : public Clock {
 public:
  double now() const override;
};

/// A mark is an event until its time is asked for; then it is a number, and the event is free
/// again. Thread-safe.
///
/// CUDA tells the time between two events, in milliseconds as a float: exact over seconds, not over
/// hours. So a mark's time is counted from an anchor, an earlier event whose time is known. The
/// first anchor is held against the host's clock; then the mark of every synchronize(), and of the
/// compute stream once a second, becomes the next as soon as it is reached. An anchor's time is
/// kept between the moments when the host recorded it and saw it reached: the GPU's clock and the
/// host's drift apart by microseconds a second, and this way the difference does not add up.
class Marks {
 public:
  /// Waits for the first anchor on `compute`. The events are timed; all outlive the marks.
  Marks(EventPool& events, Waits& waits, cudaStream_t compute);

  Mark record(cudaStream_t stream);
  bool reached(const Mark& mark);
  /// Waits until the mark is reached.
  double time(const Mark& mark);
  void hold(cudaStream_t stream, const Mark& mark);
  /// Waits for everything on the compute stream.
  void synchronize();

  const Clock& clock() const { return clock_; }

 private:
  struct Anchor;
  struct State;

  static State* state_of(const Mark& mark) { return static_cast<State*>(mark.event.get()); }
  std::shared_ptr<State> record_locked(cudaStream_t stream, bool is_anchor);
  static bool reached_locked(const State& state);
  double resolve_locked(State& state);

  EventPool& events_;
  Waits& waits_;
  const cudaStream_t compute_;
  const SteadyClock clock_;
  std::mutex mutex_;
  std::shared_ptr<const Anchor> anchor_;
  std::shared_ptr<State> next_anchor_;  // not known to be reached
};

}  // namespace ringside::cuda
