#include "core/device/cuda/runtime/marks.h"

#include <algorithm>
#include <limits>
#include <optional>

#include "core/device/cuda/runtime/check.h"

namespace ringside::cuda {
namespace {

constexpr double anchor_every_s = 1;

}  // namespace

struct Marks::Anchor {
  Event event;  // has been reached
  double time;
};

struct Marks::State {
  std::optional<Event> event;            // empty once the value is known
  std::shared_ptr<const Anchor> anchor;  // empty once `event` is empty
  double recorded_at = 0;
  double value = 0;
};

Marks::Marks(EventPool& events, Waits& waits, cudaStream_t compute)
    : events_(events), waits_(waits), compute_(compute) {
  // The stream is idle, so the event is reached between `before` and `after`. Of a few attempts,
  // the one with the shortest time between the two tells most precisely when it was reached. The
  // event gets the time `before`, so that no mark's time is later than the mark.
  double shortest = std::numeric_limits<double>::infinity();
  for (int i = 0; i < 5; ++i) {
    const double before = clock_.now();
    Event event(events_, compute_);
    waits_.until([&] { return event.reached(); });
    const double after = clock_.now();
    if (after - before >= shortest) continue;
    shortest = after - before;
    anchor_ = std::make_shared<const Anchor>(Anchor{std::move(event), before});
  }
}

Mark Marks::record(cudaStream_t stream) {
  std::lock_guard lock(mutex_);
  if (next_anchor_ && reached_locked(*next_anchor_)) resolve_locked(*next_anchor_);
  const bool is_due =
      stream == compute_ && !next_anchor_ && clock_.now() - anchor_->time > anchor_every_s;
  return {0, record_locked(stream, is_due)};
}

bool Marks::reached(const Mark& mark) {
  std::lock_guard lock(mutex_);
  const State* state = state_of(mark);
  return !state || reached_locked(*state);
}

double Marks::time(const Mark& mark) {
  State* state = state_of(mark);
  if (!state) return mark.value;
  waits_.until([&] { return reached(mark); });
  std::lock_guard lock(mutex_);
  return resolve_locked(*state);
}

void Marks::hold(cudaStream_t stream, const Mark& mark) {
  std::lock_guard lock(mutex_);
  const State* state = state_of(mark);
  if (state && state->event) state->event->hold(stream);
}

void Marks::synchronize() {
  Mark mark;
  {
    std::lock_guard lock(mutex_);
    mark.event = record_locked(compute_, true);
  }
  time(mark);
}

std::shared_ptr<Marks::State> Marks::record_locked(cudaStream_t stream, bool is_anchor) {
  auto state = std::make_shared<State>();
  state->anchor = anchor_;
  state->recorded_at = clock_.now();
  state->event.emplace(events_, stream);
  if (is_anchor) next_anchor_ = state;
  return state;
}

bool Marks::reached_locked(const State& state) { return !state.event || state.event->reached(); }

double Marks::resolve_locked(State& state) {
  if (!state.event) return state.value;
  float ms = 0;
  check(cudaEventElapsedTime(&ms, state.anchor->event.get(), state.event->get()),
        "cudaEventElapsedTime");
  double value = state.anchor->time + static_cast<double>(ms) * 1e-3;
  const bool is_anchor = &state == next_anchor_.get();
  if (is_anchor) {
    value = std::clamp(value, state.recorded_at, clock_.now());
    anchor_ = std::make_shared<const Anchor>(Anchor{std::move(*state.event), value});
  }
  state.value = value;
  state.event.reset();
  state.anchor.reset();
  if (is_anchor) next_anchor_.reset();  // this may release the last reference to the state
  return value;
}

}  // namespace ringside::cuda
