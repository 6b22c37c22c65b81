// Communication that a rank begins and later waits for, and the record of the wait.
#pragma once

#include <string>

#include "core/comm/communicator.h"
#include "core/observe/timeline.h"

namespace ringside {

/// Begins an operation by `begin()`, which returns its Work, or null. In a trace one arrow leads
/// from this call, at which the operation's inputs are complete, to the operation; a second leads
/// from there to the rank's wait for it (wait_exposed).
template <class Begin>
WorkPtr begin_traced(Timeline& timeline, std::string_view name, const Begin& begin) {
  if (!timeline.traces()) return begin();
  const std::int64_t flow = timeline.new_flow();
  const auto span =
      timeline.traced("launch", [&] { return fmt::format("begin {}", name); }, {.flows = {flow}});
  WorkPtr work = begin();
  if (work) work->note.flow = flow;
  return work;
}

/// The note of an operation's span in a trace.
inline SpanNote span_note(const Work::Note& note) {
  SpanNote out{std::string(note.group), note.operation, note.bytes, note.sequence};
  if (note.flow != 0) out.flows.push_back(note.flow);
  return out;
}

/// Waits for `work` on the rank's main thread and lets go of `work`. Records the wait as exposed,
/// and the operation, from its launch to its end, as communication. The part of the operation that
/// is not exposed was hidden behind other work.
inline void wait_exposed(Timeline& timeline, const std::string& name, WorkPtr work) {
  {
    SpanNote note;
    if (work->note.flow != 0) note.flows.push_back(work->note.flow);
    const auto span = timeline.scope(Activity::exposed, "wait " + name, std::move(note));
    work->wait();
  }
  const auto [begin, end] = work->span();
  timeline.add(Activity::communication, name, begin, end, span_note(work->note));
}

}  // namespace ringside
