// Tables of held-out losses, and of the cost to reach them.
#include <fmt/ranges.h>

#include "experiments/runner/report/report_tables.h"

namespace ringside::runner {
namespace {

/// The value as text; a value that rounds to 0 has no minus sign.
std::string text_of(double value, const char* number) {
  const std::string text = fmt::format(fmt::runtime(number), value);
  return text.find_first_of("123456789") == std::string::npos
             ? fmt::format(fmt::runtime(number), 0.0)
             : text;
}

/// "12.3 [11.9, 12.8]", or the median alone if all runs have the same value.
std::string spread_cell(const Spread& spread, double scale, const char* number) {
  const auto text = [&](double value) { return text_of(value * scale, number); };
  const std::string median = text(spread.median);
  const std::string low = text(spread.range.low), high = text(spread.range.high);
  return low == high ? median : fmt::format("{} [{}, {}]", median, low, high);
}

std::string spread_cell(const std::optional<Spread>& spread, double scale, const char* number) {
  return spread ? spread_cell(*spread, scale, number) : "-";
}

}  // namespace

std::vector<TableLine> evaluation_table(const std::vector<CaseSummary>& cases) {
  std::vector<TableLine> lines = {
      {"held out", "world", "loss", "perplexity", "accuracy", "after step"}};
  for (const CaseSummary& one : cases)
    if (one.losses.held_out)
      lines.push_back({one.label(), std::to_string(one.plan.world),
                       fmt::format("{:.4f}", one.losses.held_out->loss),
                       one.losses.perplexity ? fmt::format("{:.4g}", *one.losses.perplexity) : "-",
                       fmt::format("{:.2f}%", 100 * one.losses.held_out->accuracy),
                       std::to_string(one.losses.held_out->step)});
  return lines.size() > 1 ? lines : std::vector<TableLine>{};
}

std::vector<TableLine> staleness_table(const std::vector<CaseSummary>& cases) {
  std::vector<TableLine> lines = {{"staleness", "world", "updates p50", "p95", "max", "ms p50",
                                   "p95", "max", "dropped", "steps of workers"}};
  for (const CaseSummary& one : cases) {
    if (!one.reports.staleness) continue;
    const RunStaleness& stale = *one.reports.staleness;
    const auto ms = [](double value) { return fmt::format("{:.3g}", value); };
    lines.push_back({one.label(), std::to_string(one.plan.world), fmt::format("{:.0f}", stale.p50),
                     fmt::format("{:.0f}", stale.p95), fmt::format("{:.0f}", stale.max),
                     ms(stale.ms.p50), ms(stale.ms.p95), ms(stale.ms.max),
                     std::to_string(stale.dropped),
                     one.reports.worker_steps.empty()
                         ? "equal"
                         : fmt::format("{}", fmt::join(one.reports.worker_steps, ", "))});
  }
  return lines.size() > 1 ? lines : std::vector<TableLine>{};
}

std::vector<TableLine> time_to_loss_table(const std::vector<CaseSummary>& cases) {
  std::vector<TableLine> lines = {{"time to loss", "world", "target", "reached", "seconds",
                                   "vs single", "final - single's", "samples", "MB sent"}};
  for (const CaseSummary& one : cases) {
    if (!one.time_to_loss) continue;
    const TimeToLoss& time = *one.time_to_loss;
    lines.push_back({one.label(), std::to_string(one.plan.world),
                     time.target ? spread_cell(time.target, 1, "{:.4f}") : "no `single`",
                     fmt::format("{} of {}", time.reached, time.runs),
                     time.seconds ? spread_cell(time.seconds, 1, "{:.3g}") : "not reached",
                     spread_cell(time.speed_up, 1, "{:.2f}"),
                     spread_cell(time.final_difference, 1, "{:+.4f}"),
                     spread_cell(time.samples, 1, "{:.0f}"),
                     one.bytes.known ? spread_cell(time.bytes, 1e-6, "{:.1f}") : "-"});
  }
  return lines.size() > 1 ? lines : std::vector<TableLine>{};
}

}  // namespace ringside::runner
