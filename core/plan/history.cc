#include "core/plan/history.h"

#include <charconv>
#include <string_view>

#include "core/base/error.h"

namespace ringside {
namespace {

constexpr char both = 'p';   // accepted, then read
constexpr char times = 'x';  // a number of steps follows

/// The event at a place of the text, and where the next one begins.
struct Parsed {
  char letter;
  int worker = 0;
  std::int64_t steps = 1;
  std::size_t end = 0;
};

Parsed parse(const std::string& text, std::size_t at) {
  Parsed event{text[at]};
  const char* const last = text.data() + text.size();
  const auto refuse_unless = [at](bool fits) {
    if (!fits) throw Error("the history of a range has no event at byte {}", at);
  };
  auto [end, error] = std::from_chars(text.data() + at + 1, last, event.worker);
  const bool pushes = event.letter == 'a' || event.letter == both;
  refuse_unless(
      error == std::errc{} && event.worker >= 0 &&
      (pushes || std::string_view("drtmgcs").find(event.letter) != std::string_view::npos));
  const bool numbers = event.letter == 'c' || event.letter == 's';
  if ((pushes || numbers) && end != last && *end == times) {
    const auto steps = std::from_chars(end + 1, last, event.steps);
    refuse_unless(steps.ec == std::errc{} && event.steps >= (numbers ? 0 : 1));
    end = steps.ptr;
  }
  event.end = static_cast<std::size_t>(end - text.data());
  return event;
}

/// The event as text, without the letter of its kind.
std::string after_letter(int worker, std::int64_t steps) {
  std::string text = std::to_string(worker);
  if (steps != 1) text += times + std::to_string(steps);
  return text;
}

}  // namespace

void ChunkHistory::add(const RangeEvent& event, std::size_t most_bytes) {
  const std::string text = static_cast<char>(event.kind) + after_letter(event.worker, event.steps);
  cut = cut || events.size() + text.size() > most_bytes;
  if (cut) return;
  // The worker's push may be the latest event; then this read becomes a part of it.
  const std::size_t latest = events.find_last_of("adprtmgcs");
  if (event.kind == RangeEvent::Kind::read && latest != std::string::npos) {
    const Parsed before = parse(events, latest);
    if (before.letter == 'a' && before.worker == event.worker) {
      events[latest] = both;
      return;
    }
  }
  events += text;
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
  if (half_) return RangeEvent{RangeEvent::Kind::read, event.worker};
  const auto kind =
      event.letter == both ? RangeEvent::Kind::accepted : RangeEvent::Kind{event.letter};
  return RangeEvent{kind, event.worker, event.steps};
}

void EventReader::skip() {
  const Parsed event = parse(text_, at_);
  half_ = event.letter == both && !half_;
  if (!half_) at_ = event.end;
}

}  // namespace ringside
