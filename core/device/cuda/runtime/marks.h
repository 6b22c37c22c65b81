// Marks of streams, and the times on the host's clock at which they were reached.
#pragma once

#include <cuda_runtime.h>

#include <memory>
#include <mutex>

#include "core/device/cuda/runtime/event_pool.h"
#include "core/device/cuda/runtime/waits.h"
#include "core/device/steady_clock.h"

namespace ringside::cuda {

/// A mark holds an event until the mark's time is asked for. From then on the mark holds the time,
/// and the event is free again. Thread-safe.
///
/// CUDA gives the time between two events in milliseconds as a float, which is exact over seconds
/// but not over hours. So the time of a mark is counted from an anchor, an earlier event whose time
/// is known. The first anchor is compared with the host's clock. Later the mark of every
/// synchronize(), and once a second a mark of the compute stream, becomes the next anchor as soon
/// as it is reached. An anchor's time is limited to the interval from the moment when the host
/// recorded the anchor to the moment when it saw the anchor reached. The clocks of GPU and host
/// drift apart by microseconds a second; this limit keeps the difference from adding up.
class Marks {
 public:
  /// Waits until the first anchor is reached on `compute`. `events` must have timing. All three
  /// must outlive the marks.
  Marks(EventPool& events, Waits& waits, cudaStream_t compute);

  Mark record(cudaStream_t stream);
  bool reached(const Mark& mark);
  /// Returns the time of a mark; waits until it is reached.
  double time(const Mark& mark);
  void hold(cudaStream_t stream, const Mark& mark);
  /// Waits until everything on the compute stream has run.
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
  std::shared_ptr<State> next_anchor_;  // not yet known to be reached
};

}  // namespace ringside::cuda
