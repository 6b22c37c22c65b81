// ringside watch
#include <poll.h>
#include <unistd.h>

#include <iostream>

#include "core/base/error_text.h"
#include "core/base/time_of_day.h"
#include "experiments/tools/cli/command.h"
#include "experiments/tools/watch/display.h"
#include "experiments/tools/watch/event_lines.h"
#include "experiments/tools/watch/live_text.h"
#include "experiments/tools/watch/watch.h"

namespace ringside::tools::cli {
namespace {

struct WatchArguments {
  std::string folder;
  bool once = false, events = false;  // print the present state and end; print lines of JSON
};

constexpr int look_interval_ms = 200;
constexpr int columns_of_a_file = 120;

/// The output of the command: events, or the display of the comparison itself.
class Shown {
 public:
  Shown(const WatchArguments& arguments, const Process& process)
      : events_(arguments.events),
        size_([&process] { return watch::terminal_size(STDOUT_FILENO, process.environment); }),
        out_(STDOUT_FILENO, process.interrupted, OutputStream::usually_waiting,
             events_ ? watch::left_out_event : WaitingText::left_out_text),
        display_(out_, size_) {}

  /// `past`: the lines were there before, and their state counts alone.
  void show(const watch::Watch::Look& look, bool past) {
    for (const std::string& complaint : look.complaints) complain(ok, complaint);
    if (past && look.state == watch::Watched::preparing)
      std::cerr << "A comparison is being prepared; no run has begun" << std::endl;
    for (const watch::FollowedLine& line : look.lines) {
      if (events_)
        out_ << line.line;
      else if (line.event && past)
        display_.catch_up(*line.event);
      else if (line.event)
        display_.hear(*line.event);
    }
    if (!events_ && look.state == watch::Watched::running) display_.draw(time_of_day());
    out_ << std::flush;
  }

  /// Prints the table as it is now, in place of the one that is drawn anew.
  void conclude(const watch::Standing& standing) {
    display_.leave();
    if (events_ || !standing.began()) return;
    const watch::TerminalSize size = size_();
    const int columns = size.is_terminal() ? size.columns - 1 : columns_of_a_file;
    const auto all = static_cast<int>(standing.cases().size()) + 1;
    for (const std::string& line : watch::case_lines(standing, columns, all)) out_ << line << "\n";
    out_ << watch::comparison_text(standing) << "\n";
    if (const auto present = watch::present_text(standing, time_of_day()); !present.empty())
      out_ << present << "\n";
  }

  void leave() { display_.leave(); }
  OutputStream& out() { return out_; }

 private:
  bool events_;
  std::function<watch::TerminalSize()> size_;
  OutputStream out_;
  watch::ProgressDisplay display_;
};

/// Ends the command when the comparison's state is `state`.
int conclude(Shown& shown, const watch::Standing& standing, watch::Watched state,
             const std::string& folder) {
  shown.conclude(standing);
  const int status = finish(shown.out(), ok);
  if (state == watch::Watched::died)
    return complain(
        run_failed,
        fmt::format("{}: the comparison ended before its last run: its process is gone; "
                    "go on with the same `ringside compare` and --resume",
                    folder));
  if (state == watch::Watched::ended && standing.end()->status != runner::ComparisonStatus::ok)
    return complain(run_failed, fmt::format("{}: {}", folder, standing.end()->error));
  return status;
}

int watch_folder(const WatchArguments& arguments, const Process& process) {
  const std::string& folder = arguments.folder;
  std::optional<watch::Watch> watch;
  try {
    watch.emplace(folder);
  } catch (const std::exception& error) {
    return complain(wrong_input, error.what());
  }
  process.catch_interrupts();
  Shown shown(arguments, process);
  for (bool past = true;; past = false) {
    watch::Watch::Look look;
    try {
      look = watch->look();
    } catch (const std::exception& error) {
      shown.leave();
      return complain(wrong_input, error_text(error));
    }
    shown.show(look, past);
    const bool goes_on =
        look.state == watch::Watched::preparing || look.state == watch::Watched::running;
    if (!goes_on || arguments.once) return conclude(shown, watch->standing(), look.state, folder);
    if (process.interrupted() || !shown.out()) break;
    poll(nullptr, 0, look_interval_ms);
  }
  shown.leave();
  return finish(shown.out(), was_interrupted);
}

}  // namespace

Execute watch_command(CommandOptions& options) {
  options.summary(
      "follow a comparison that runs in another terminal, by its folder of results, until it ends");
  const auto arguments = std::make_shared<WatchArguments>();
  options.add("RESULTS", arguments->folder, "the folder, as in results/quickstart").required();
  options.flag("--once", arguments->once, "print the present state of the comparison, and end");
  options.flag("--json", arguments->events, "print its events, one a line, in JSON");
  return [arguments](const Process& process) { return watch_folder(*arguments, process); };
}

}  // namespace ringside::tools::cli
