#include "core/plan/history.h"

#include <charconv>

#include "core/base/error.h"

namespace ringside {
namespace {

constexpr char both = 'p';  // accepted, then read

/// The event at a place of the text, and where the next one begins.
struct Parsed {
  char letter;
  int worker;
  std::size_t end;
};

Parsed parse(const std::string& text, std::size_t at) {
  int worker = 0;
  const char* first = text.data() + at + 1;
  const auto [end, error] = std::from_chars(first, text.data() + text.size(), worker);
  const char letter = text[at];
  const bool known = letter == 'a' || letter == 'd' || letter == 'r' || letter == 'g';
  if (error != std::errc{} || worker < 0 || !(known || letter == both))
    throw Error("the history of a range has no event at byte {}", at);
  return {letter, worker, static_cast<std::size_t>(end - text.data())};
}

}  // namespace

void ChunkHistory::add(const RangeEvent& event, std::size_t most_bytes) {
  const std::string worker = std::to_string(event.worker);
  cut = cut || events.size() + 1 + worker.size() > most_bytes;
  if (cut) return;
  const std::string before = 'a' + worker;
  if (event.kind == RangeEvent::Kind::read && events.ends_with(before)) {
    events[events.size() - before.size()] = both;
    return;
  }
  events += static_cast<char>(event.kind);
  events += worker;
}

Fields fields_of(ChunkHistory& history) {
  return {{"begin", &history.begin},
          {"count", &history.count},
          {"events", &history.events},
          {"cut", &history.cut}};
}

std::optional<RangeEvent> EventReader::peek() const {
  if (at_ >= text_.size()) return {};
  const Parsed event = parse(text_, at_);
  if (event.letter != both) return RangeEvent{RangeEvent::Kind{event.letter}, event.worker};
  return RangeEvent{half_ ? RangeEvent::Kind::read : RangeEvent::Kind::accepted, event.worker};
}

void EventReader::skip() {
  const Parsed event = parse(text_, at_);
  half_ = event.letter == both && !half_;
  if (!half_) at_ = event.end;
}

}  // namespace ringside
