#include "ps/schemes/replay_order.h"

#include <algorithm>
#include <utility>

#include "core/base/error.h"

namespace ringside::ps {
namespace {

bool is_push(const RangeEvent& event) {
  return event.kind == RangeEvent::Kind::accepted || event.kind == RangeEvent::Kind::dropped;
}

bool may_be_left(const RangeEvent& event) {
  return event == RangeEvent{RangeEvent::Kind::read, 0} || event.kind == RangeEvent::Kind::gone ||
         event.kind == RangeEvent::Kind::came;
}

}  // namespace

ReplayOrder::ReplayOrder(const std::vector<ChunkHistory>& record, int workers)
    : processes_(static_cast<std::size_t>(workers), std::vector<Process>(1)),
      process_(processes_.size()),
      came_(processes_.size()),
      offered_(processes_.size()),
      asked_(processes_.size()) {
  if (record.empty()) throw Error("there is no record of a run to replay");
  for (const ChunkHistory& history : record) {
    if (history.cut) throw Error("the record of the run is not whole, so it cannot be replayed");
    ranges_.push_back({&history, EventReader(history), std::vector<Visited>(processes_.size())});
    read_record(ranges_.back());
  }
}

/// Adds the processes and the pushes that this range's events name.
void ReplayOrder::read_record(Range& range) {
  std::vector<Visited> workers(processes_.size());
  for (EventReader events(*range.history); const auto event = events.peek(); events.skip()) {
    if (static_cast<std::size_t>(event->worker) >= workers.size())
      throw Error("the record of the run names worker {} of {}", event->worker, workers.size());
    const auto w = static_cast<std::size_t>(event->worker);
    Visited& of = workers[w];
    const auto push = static_cast<std::size_t>(of.pushes);
    note(of, *event);
    if (event->kind == RangeEvent::Kind::gone) ++range.workers[w].leaves;
    if (of.process == processes_[w].size()) processes_[w].emplace_back();
    Process& process = processes_[w][of.process];
    if (event->kind == RangeEvent::Kind::came) process.first = event->steps;
    if (!is_push(*event)) continue;
    if (push == process.steps.size()) process.steps.push_back(event->steps);
    if (process.steps[push] != event->steps)
      throw Error(
          "the record of the run does not fit: push {} of worker {} has {} steps in one range and "
          "{} in another",
          push, w, process.steps[push], event->steps);
  }
}

/// A process that has come may be told a later number before it pushes.
void ReplayOrder::note(Visited& of, const RangeEvent& event) const {
  if (event.kind == RangeEvent::Kind::came && std::exchange(of.gone, false)) {
    ++of.process;
    of.pushes = of.reads = 0;
  }
  if (event.kind == RangeEvent::Kind::gone) {
    of.gone = true;
    --of.leaves;
  }
  if (event.kind == RangeEvent::Kind::read) ++of.reads;
  if (is_push(event)) ++of.pushes;
}

std::optional<std::int64_t> ReplayOrder::came(std::size_t worker) {
  return std::exchange(came_[worker], {});
}

bool ReplayOrder::has_read(std::size_t worker) const {
  return std::all_of(ranges_.begin(), ranges_.end(), [&](const Range& range) {
    const Visited& of = range.workers[worker];
    return of.process == process_[worker] && of.reads == asked_[worker];
  });
}

bool ReplayOrder::can_come(const Range& range, const RangeEvent& event) const {
  const auto w = static_cast<std::size_t>(event.worker);
  const Visited& of = range.workers[w];
  if (of.process < process_[w]) return true;  // the worker has computed all that is left of it
  if (event.kind == RangeEvent::Kind::came && of.gone) return false;
  // A worker that is lost may have read after its last push, in steps that it did not end.
  if (event.kind == RangeEvent::Kind::read)
    return of.reads < asked_[w] || (w > 0 && of.leaves > 0 && !computes(w));
  return !is_push(event) || of.pushes < offered_[w];
}

void ReplayOrder::take_seats() {
  for (std::size_t w = 0; w < processes_.size(); ++w)
    while (!computes(w) && process_[w] + 1 < processes_[w].size()) {
      ++process_[w];
      came_[w] = process(w).first;
      offered_[w] = 0;
      asked_[w] = 1;
    }
}

void ReplayOrder::go_on(const Visit& visit) {
  take_seats();
  for (std::size_t r = 0; r < ranges_.size(); ++r) {
    Range& range = ranges_[r];
    for (auto event = range.events.peek(); event && can_come(range, *event);
         event = range.events.peek()) {
      note(range.workers[static_cast<std::size_t>(event->worker)], *event);
      visit(r, *event);
      range.events.skip();
    }
  }
}

void ReplayOrder::check_end() const {
  for (const Range& range : ranges_) {
    EventReader left = range.events;
    for (auto event = left.peek(); event && may_be_left(*event); event = left.peek()) left.skip();
    if (left.peek())
      throw Error(
          "the record of the run does not fit: nothing can follow what has happened to the {} "
          "elements from {} on",
          range.history->count, range.history->begin);
  }
}

}  // namespace ringside::ps
