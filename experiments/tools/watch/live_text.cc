#include "experiments/tools/watch/live_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <tuple>

#include "core/base/counted.h"
#include "experiments/runner/report/text_table.h"

namespace ringside::tools::watch {
namespace {

constexpr std::size_t gap = 2;  // blanks between two columns of the table

struct Column {
  std::string_view name;
  /// The number of columns of a label that are worth more than this column.
  std::size_t yields_to;
  std::string (*cell)(const CaseStanding& of, bool is_present);
};

std::string loss_text(std::optional<double> loss) {
  return loss ? fmt::format("{:.4f}", *loss) : "";
}

std::string label_of(const CaseStanding& of) {
  return of.plan().label + (of.plan().simulated ? " [simulated]" : "");
}

std::string runs_cell(const CaseStanding& of, bool) {
  return fmt::format("{}/{}", of.done(), of.runs.size());
}

std::string speed_cell(const CaseStanding& of, bool) {
  if (const auto median = of.median()) return runner::per_second(median->samples_per_s);
  return of.step && of.step->samples_per_s ? runner::per_second(*of.step->samples_per_s) : "";
}

std::string step_cell(const CaseStanding& of, bool) {
  if (const auto median = of.median()) return runner::milliseconds(median->step_ms);
  return of.step ? runner::milliseconds(of.step->step_ms) : "";
}

std::string loss_cell(const CaseStanding& of, bool) {
  if (const auto median = of.median()) return loss_text(median->loss);
  return of.step ? loss_text(of.step->loss) : "";
}

std::string memory_cell(const CaseStanding& of, bool) {
  const auto median = of.median();
  return median ? runner::megabytes(static_cast<double>(median->memory_peak)) : "";
}

std::string state_cell(const CaseStanding& of, bool is_present) {
  if (is_present) return "running";
  if (of.failed() > 0) return "FAILED";
  if (of.disturbed() > 0) return "disturbed";
  return of.done() == static_cast<int>(of.runs.size()) ? "done" : "";
}

constexpr std::size_t never = 0;
constexpr Column columns_of_cases[] = {
    {"world", 8, [](const CaseStanding& of, bool) { return std::to_string(of.plan().world); }},
    {"runs", never, runs_cell},
    {"samples/s", 8, speed_cell},
    {"step ms", 12, step_cell},
    {"loss", 24, loss_cell},
    {"peak MB", 28, memory_cell},
    {"state", 20, state_cell}};

bool is_present(const Standing& standing, std::size_t line) {
  return standing.present() && standing.present()->place.line == line;
}

/// A column with its header and its cells.
struct FilledColumn {
  Column column;
  std::vector<std::string> cells;
  std::size_t width = 0;
};

FilledColumn fill(const Column& column, const Standing& standing,
                  const std::vector<std::size_t>& shown) {
  FilledColumn out{column, {std::string(column.name)}};
  for (const std::size_t line : shown)
    out.cells.push_back(column.cell(standing.cases()[line], is_present(standing, line)));
  for (const std::string& cell : out.cells)
    out.width = std::max(out.width, runner::columns_of(cell));
  return out;
}

/// Leaves out columns until labels have room; those that yield to the shortest label go first.
/// Returns the room that labels have.
std::size_t make_room(std::vector<FilledColumn>& columns, std::size_t widest_label,
                      std::size_t room) {
  for (;;) {
    std::size_t taken = 0;
    for (const FilledColumn& one : columns) taken += gap + one.width;
    const std::size_t left = room > taken ? room - taken : 0;
    const auto first = std::max_element(columns.begin(), columns.end(),
                                        [](const FilledColumn& a, const FilledColumn& b) {
                                          return a.column.yields_to < b.column.yields_to;
                                        });
    if (left >= std::min(widest_label, first->column.yields_to)) return left;
    columns.erase(first);
  }
}

/// The lines of the cases that matter most, in the order of the tables.
std::vector<std::size_t> shown_cases(const Standing& standing, std::size_t most) {
  const std::vector<CaseStanding>& cases = standing.cases();
  std::vector<std::size_t> shown(cases.size());
  std::iota(shown.begin(), shown.end(), std::size_t{0});
  if (shown.size() <= most) return shown;
  const auto rank = [&](std::size_t line) {
    const CaseStanding& one = cases[line];
    return std::tuple(!is_present(standing, line), one.failed() == 0, -one.heard);
  };
  std::stable_sort(shown.begin(), shown.end(),
                   [&](std::size_t a, std::size_t b) { return rank(a) < rank(b); });
  shown.resize(most);
  std::sort(shown.begin(), shown.end());
  return shown;
}

std::string others_text(const Standing& standing, const std::vector<std::size_t>& shown) {
  int others = 0, done = 0, waiting = 0;
  for (std::size_t line = 0; line < standing.cases().size(); ++line) {
    if (std::binary_search(shown.begin(), shown.end(), line)) continue;
    const CaseStanding& one = standing.cases()[line];
    ++others;
    if (one.done() == static_cast<int>(one.runs.size())) ++done;
    if (one.done() == 0) ++waiting;
  }
  return fmt::format("{} more cases: {} done, {} not begun", others, done, waiting);
}

std::string padded(const std::string& text, std::size_t columns, bool to_left) {
  const std::size_t taken = runner::columns_of(text);
  const std::string blanks(columns > taken ? columns - taken : 0, ' ');
  return to_left ? text + blanks : blanks + text;
}

std::string head(const runner::PlannedRun& run, const Standing& standing, int number, int attempt) {
  const int planned = standing.planned();
  const int most = standing.comparison().most_attempts;
  return fmt::format("[{:>{}}/{}] {} world {} repeat {}{}", number, std::to_string(planned).size(),
                     planned, run.label, run.world, run.repeat,
                     attempt > 1 ? fmt::format(", attempt {} of {}", attempt, most) : "");
}

}  // namespace

std::string duration_text(double seconds) {
  const auto whole = static_cast<std::int64_t>(std::ceil(std::max(0.0, seconds)));
  if (whole < 60) return fmt::format("{} s", whole);
  if (whole < 3600) return fmt::format("{}:{:02} min", whole / 60, whole % 60);
  return fmt::format("{}:{:02} h", whole / 3600, whole / 60 % 60);
}

std::string present_text(const Standing& standing, double time) {
  if (!standing.present()) return {};
  const CaseStanding& of = standing.cases()[standing.present()->place.line];
  const runner::PlannedRun& run = of.runs[standing.present()->place.run].plan;
  const std::optional<double> seconds = standing.seconds_left(time);
  const std::string left = seconds ? fmt::format("  {} left", duration_text(*seconds)) : "";
  std::string out = head(run, standing, standing.done() + 1, standing.present()->attempt);
  if (of.step) {  // the most important figures come first, because narrow terminals cut the line
    out += fmt::format("  step {}/{}", of.step->step, run.steps) + left;
    if (of.step->samples_per_s) out += fmt::format("  {:.1f} samples/s", *of.step->samples_per_s);
    if (of.step->loss) out += fmt::format("  loss {:.4f}", *of.step->loss);
  } else {
    out += "  starting" + left;
  }
  return out;
}

std::string ended_text(const Standing& standing, const runner::RunEnded& run) {
  const std::optional<RunPlace> place = standing.place_of(run.run);
  if (!place) return {};
  const runner::PlannedRun& plan = standing.cases()[place->line].runs[place->run].plan;
  std::string out = head(plan, standing, standing.done() + (run.made_again ? 1 : 0), run.attempt);
  if (run.status != "ok") return out + "  FAILED: " + run.error;
  out += fmt::format("  {:.1f} samples/s  step {:.1f} ms", run.samples_per_s, run.step_ms);
  if (run.loss) out += fmt::format("  loss {:.4f}", *run.loss);
  if (!run.disturbance.empty()) out += fmt::format("  DISTURBED: {}", run.disturbance);
  return out;
}

std::string comparison_text(const Standing& standing) {
  std::string out = fmt::format("{}: {} of {}", standing.comparison().experiment, standing.done(),
                                counted(static_cast<std::int64_t>(standing.planned()), "run"));
  if (standing.failed() > 0) out += fmt::format(", {} failed", standing.failed());
  return out;
}

std::vector<std::string> case_lines(const Standing& standing, int columns, int most_lines) {
  const std::size_t cases = standing.cases().size();
  const auto most = static_cast<std::size_t>(std::max(0, most_lines));
  const bool all = cases + 1 <= most;
  if (cases == 0 || (!all && most < 3)) return {};
  const std::vector<std::size_t> shown = shown_cases(standing, all ? cases : most - 2);

  std::vector<std::string> labels = {"case"};
  for (const std::size_t line : shown) labels.push_back(label_of(standing.cases()[line]));
  std::size_t widest = 0;
  for (const std::string& label : labels) widest = std::max(widest, runner::columns_of(label));
  std::vector<FilledColumn> filled;
  for (const Column& column : columns_of_cases) filled.push_back(fill(column, standing, shown));
  const std::size_t room =
      make_room(filled, widest, static_cast<std::size_t>(std::max(0, columns)));
  const auto label_columns = static_cast<int>(std::min(widest, room));

  std::vector<std::string> out;
  for (std::size_t i = 0; i < labels.size(); ++i) {
    std::string line =
        padded(in_columns(labels[i], label_columns), static_cast<std::size_t>(label_columns), true);
    for (const FilledColumn& one : filled)
      line += std::string(gap, ' ') + padded(one.cells[i], one.width, one.column.name == "state");
    while (line.ends_with(' ')) line.pop_back();
    out.push_back(in_columns(line, columns));
  }
  if (!all) out.push_back(in_columns(others_text(standing, shown), columns));
  return out;
}

std::vector<std::string> live_lines(const Standing& standing, double time, TerminalSize size) {
  if (!standing.began()) return {};
  const int columns = size.columns - 1;  // some terminals begin a new row after the last column
  const int below_table = 2;             // the last line, and the one on which the cursor stands
  std::vector<std::string> lines = case_lines(standing, columns, size.rows - below_table);
  const std::string present = present_text(standing, time);
  lines.push_back(in_columns(present.empty() ? comparison_text(standing) : present, columns));
  return lines;
}

}  // namespace ringside::tools::watch
