#include "experiments/tools/watch/display.h"

#include <cmath>
#include <utility>

#include "experiments/tools/watch/live_text.h"

namespace ringside::tools::watch {
namespace {

constexpr double plain_interval_s = 2;

}  // namespace

ProgressDisplay::ProgressDisplay(std::ostream& out, std::function<TerminalSize()> size)
    : size_(size), block_(out, std::move(size)) {}

void ProgressDisplay::hear(const runner::ProgressEvent& event) {
  standing_.hear(event);
  if (!standing_.began()) return;
  if (std::holds_alternative<runner::ComparisonEnded>(event.what)) return leave();
  const bool is_terminal = size_().is_terminal();
  if (const auto* ended = std::get_if<runner::RunEnded>(&event.what)) {
    if (const std::string text = ended_text(standing_, *ended); !ended->kept && !text.empty())
      block_.print(text + "\n");
  } else if (std::holds_alternative<runner::RunBegan>(event.what)) {
    last_line_ = event.time;
  } else if (std::holds_alternative<runner::StepDone>(event.what) && !is_terminal) {
    // The absolute value, because the time of day may be set back.
    if (std::abs(event.time - last_line_) < plain_interval_s || !standing_.present()) return;
    last_line_ = event.time;
    block_.print(present_text(standing_, event.time) + "\n");
  }
  if (is_terminal) draw(event.time);
}

void ProgressDisplay::draw(double time) {
  if (const TerminalSize size = size_(); size.is_terminal())
    block_.draw(live_lines(standing_, time, size));
}

}  // namespace ringside::tools::watch
