// The histories of servers' ranges when workers do not wait for each other: which gradients were
// taken, and in which order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "core/base/fields.h"

namespace ringside {

/// One event of a range on its server.
struct RangeEvent {
  enum class Kind : char {
    accepted = 'a',  // the worker's next gradient arrived, and is part of an update
    dropped = 'd',   // the worker's next gradient arrived too late, and is part of none
    read = 'r',      // the worker got the values (easgd, for a push: the difference)
    taken = 't',     // the worker's push is part of the merge that comes next
    merged = 'm',    // an update was made of the pushes that were taken; no worker's (0)
    gone = 'g',      // the worker has left: later updates do not wait for it
    came = 'c',      // a new process has taken the worker's seat, and pushes from `steps` on
    skips = 's'      // the worker, which pushes elsewhere already, pushes here from `steps` on
  };
  Kind kind = Kind::accepted;
  int worker = 0;
  /// Of a push after local steps, whose number workers choose: how many there were. Of a process
  /// that came, and of a worker that skips some: the number of its next push.
  std::int64_t steps = 1;
  bool operator==(const RangeEvent&) const = default;
};

/// The events of one range, in their order. An update happens as soon as all its gradients have
/// arrived, or, where updates also wait for a time, when the history says so (merged). So the order
/// of events decides every bit. `events` is a text without separators. Each event is the kind's
/// letter, then the worker's decimal number, then, for other steps than one, "x" and their number;
/// "p2" stands for "a2r2", and "p2x8" for "a2x8r2". A process that came may do so in two events, of
/// which the second raises its number.
struct ChunkHistory {
  std::int64_t begin = 0, count = 0;  // elements of the model's flat parameters
  std::string events;
  /// Whether events were dropped because there were too many.
  bool cut = false;
  bool operator==(const ChunkHistory&) const = default;

  /// Adds the event, unless the text would have more than `most_bytes`: then `cut` becomes true.
  void add(const RangeEvent& event, std::size_t most_bytes);
};

Fields fields_of(ChunkHistory& history);

/// Reads the events of a history, one after the other. The history outlives the reader.
class EventReader {
 public:
  explicit EventReader(const ChunkHistory& history) : text_(history.events) {}
  /// The next event; none after the last one. Throws Error if the text is no history.
  std::optional<RangeEvent> peek() const;
  /// Goes on to the event after the one that peek() returns.
  void skip();

 private:
  const std::string& text_;
  std::size_t at_ = 0;
  bool half_ = false;  // the first half of a "p" has been read
};

}  // namespace ringside
