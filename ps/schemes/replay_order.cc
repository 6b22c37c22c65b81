#include "ps/schemes/replay_order.h"

#include <algorithm>

#include "core/base/error.h"

namespace ringside::ps {
namespace {

bool is_push(const RangeEvent& event) {
  return event.kind == RangeEvent::Kind::accepted || event.kind == RangeEvent::Kind::dropped;
}

}  // namespace

ReplayOrder::ReplayOrder(const std::vector<ChunkHistory>& record, int workers)
    : pushes_(static_cast<std::size_t>(workers)),
      offered_(pushes_.size()),
      asked_(pushes_.size()),
      steps_(pushes_.size()) {
  if (record.empty()) throw Error("there is no record of a run to replay");
  for (const ChunkHistory& history : record) {
    if (history.cut) throw Error("the record of the run is not whole, so it cannot be replayed");
    std::vector<std::int64_t> none(pushes_.size()), pushes = none;
    for (EventReader events(history); const auto event = events.peek(); events.skip()) {
      if (event->worker >= workers)
        throw Error("the record of the run names worker {} of {}", event->worker, workers);
      if (!is_push(*event)) continue;
      const auto w = static_cast<std::size_t>(event->worker);
      const auto push = static_cast<std::size_t>(pushes[w]++);
      if (push == steps_[w].size()) steps_[w].push_back(event->steps);
      if (steps_[w][push] != event->steps)
        throw Error(
            "the record of the run does not fit: push {} of worker {} has {} steps in one range "
            "and {} in another",
            push, w, steps_[w][push], event->steps);
    }
    for (std::size_t w = 0; w < pushes.size(); ++w) pushes_[w] = std::max(pushes_[w], pushes[w]);
    ranges_.push_back({&history, EventReader(history), none, none});
  }
}

bool ReplayOrder::has_read(std::size_t worker) const {
  return std::all_of(ranges_.begin(), ranges_.end(),
                     [&](const Range& range) { return range.reads[worker] == asked_[worker]; });
}

bool ReplayOrder::can_come(const Range& range, const RangeEvent& event) const {
  const auto w = static_cast<std::size_t>(event.worker);
  if (event.kind == RangeEvent::Kind::read) return range.reads[w] < asked_[w];
  return !is_push(event) || range.pushes[w] < offered_[w];
}

void ReplayOrder::go_on(const Visit& visit) {
  for (std::size_t r = 0; r < ranges_.size(); ++r) {
    Range& range = ranges_[r];
    for (auto event = range.events.peek(); event && can_come(range, *event);
         event = range.events.peek()) {
      const auto w = static_cast<std::size_t>(event->worker);
      if (event->kind == RangeEvent::Kind::read) ++range.reads[w];
      if (is_push(*event)) ++range.pushes[w];
      visit(r, *event);
      range.events.skip();
    }
  }
}

void ReplayOrder::check_end() const {
  for (const Range& range : ranges_) {
    EventReader left = range.events;
    for (auto event = left.peek(); event == RangeEvent{RangeEvent::Kind::read, 0} ||
                                   (event && event->kind == RangeEvent::Kind::gone);
         event = left.peek())
      left.skip();
    if (left.peek())
      throw Error(
          "the record of the run does not fit: nothing can follow what has happened to the {} "
          "elements from {} on",
          range.history->count, range.history->begin);
  }
}

}  // namespace ringside::ps
