// The figures of one run, as `ringside train` prints them.
#include <fmt/ranges.h>

#include <cmath>

#include "core/base/counted.h"
#include "core/base/error.h"
#include "core/plan/mesh.h"
#include "core/plan/pipeline_plan.h"
#include "experiments/runner/report/report.h"
#include "experiments/runner/report/text_table.h"

namespace ringside::runner {
namespace {

/// The resident memory of a rank; empty for a simulated rank, which has none.
std::string resident_text(const RankRecord& rank) {
  if (rank.rss == 0) return "";
  return fmt::format(", resident {} MB",
                     megabytes(static_cast<double>(rank.rss - rank.rss_of_peers)));
}

/// Names the workers to which a hash of parameters belongs.
std::string shown_text(const RunRecord& row) {
  const RunParameters& at_end = row.at_end;
  if (!at_end.differing.empty())
    return fmt::format(", but those of {} DIFFER", ranks_text(at_end.differing));
  const int showing = has_pipeline(row.plan) ? data_world(row.plan) : last_world(row);
  if (showing == 1 || row.parameter_hashes.size() > 1 || at_end.shown_by == 0) return "";
  if (at_end.shown_by == showing)
    return fmt::format(" (of each of {} {})", showing,
                       has_pipeline(row.plan) ? "pipelines" : "workers");
  return " (of the servers, as worker 0 read them)";
}

/// Restarts, and the run's checkpoints.
std::string survival_text(const RunRecord& row) {
  std::string out;
  for (const Restart& restart : row.restarts)
    out += fmt::format("restarted      from {} ({} made again, {:.1f} s): {}\n",
                       restart.from == 0 ? "the beginning" : fmt::format("step {}", restart.from),
                       counted(restart.lost_steps, "step"), restart.down_s, restart.error);
  for (std::size_t i = 0; i < row.worlds.size(); ++i) {
    const WorldPeriod& period = row.worlds[i];
    const std::int64_t end =
        i + 1 < row.worlds.size() ? row.worlds[i + 1].from : row.plan.train.steps;
    out += fmt::format("world {:<8} {} from step {} on", period.world,
                       counted(end - period.from, "step"), period.from + 1);
    if (!period.cause.empty())
      out += fmt::format(
          " ({} made again; all had left after {:.0f} ms, and went on after "
          "{:.0f} ms): {}",
          counted(period.lost_steps, "step"), 1e3 * period.left_s, 1e3 * period.down_s,
          period.cause);
    out += '\n';
  }
  std::int64_t written = 0, bytes = 0, resumed_after = 0;
  double stall_s = 0;
  std::string failure, note;
  for (const RankRecord& rank : row.ranks) {
    if (!rank.checkpoints) continue;
    written = std::max(written, rank.checkpoints->written);
    bytes += rank.checkpoints->bytes;
    stall_s = std::max(stall_s, rank.checkpoints->stall_s);
    if (failure.empty()) failure = rank.checkpoints->failure;
    if (note.empty()) note = rank.checkpoints->note;
    resumed_after = rank.checkpoints->resumed_after;
  }
  if (!note.empty())
    out +=
        fmt::format("went on        from the checkpoint after step {}: {}\n", resumed_after, note);
  if (written > 0)
    out += fmt::format("checkpoints    {} of {} MB; training waited {:.1f} ms for each\n", written,
                       megabytes(static_cast<double>(bytes)),
                       1e3 * stall_s / static_cast<double>(written));
  if (!failure.empty()) out += fmt::format("NO CHECKPOINT  {}\n", failure);
  return out;
}

}  // namespace

std::string row_text(const RunRecord& row) {
  double sent = 0;
  std::int64_t all_ranks = 0;
  const RankRecord* largest = nullptr;
  for (const RankRecord& rank : row.ranks) {
    all_ranks += rank.at_peak.total();
    sent = std::max(sent, rank.bytes_sent_per_step);
    if (!largest || rank.at_peak.total() > largest->at_peak.total()) largest = &rank;
  }
  std::string out;
  for (const auto& e : row.evaluations) {
    const auto perplexity_of = perplexity(row, e);
    out +=
        fmt::format("held-out loss {:.4f}{}, accuracy {:.2f}% after step {} ({:.1f} s)\n", e.loss,
                    perplexity_of ? fmt::format(", perplexity {:.3g}", *perplexity_of) : "",
                    100 * e.accuracy, e.step, e.seconds);
  }
  out += fmt::format("{} at world {}: {}, {} of {}\n", row.plan.scheme, row.plan.world,
                     counted(row.parameters, "parameter"), counted(row.plan.train.steps, "step"),
                     counted(row.plan.train.global_batch, "sample"));
  if (has_pipeline(row.plan))
    out += fmt::format("mesh           {}; {}\n", mesh_text(row.plan), pipeline_text(row.plan));
  if (const std::string remark = recomputation_remark(row.plan); !remark.empty())
    out += fmt::format("recomputation  {}\n", remark);
  if (row.plan.cluster)
    out += fmt::format("SIMULATED      on cluster {}, in virtual time\n", row.plan.cluster->name);
  if (!row.loss.empty()) out += fmt::format("loss           {:.4f}\n", row.loss.back());
  const std::string tokens =
      row.tokens_per_s > 0 ? fmt::format(", {:.0f} tokens/s", row.tokens_per_s) : "";
  out += fmt::format("speed          {} samples/s{}\n", per_second(row.samples_per_s), tokens);
  if (row.skipped_steps > 0)
    out += fmt::format("skipped        {}, whose gradients were not finite\n",
                       counted(row.skipped_steps, "step"));
  out += fmt::format("step           {:.1f} ms (10%: {:.1f}, 90%: {:.1f})\n", row.step_ms.median,
                     row.step_ms.p10, row.step_ms.p90);
  out += fmt::format(
      "of which       compute {}, exposed communication {}, optimizer {}, data {}, "
      "encoding {}, idle {} ms\n",
      milliseconds(row.time_ms.compute), milliseconds(row.time_ms.exposed),
      milliseconds(row.time_ms.optimizer), milliseconds(row.time_ms.data),
      milliseconds(row.time_ms.encoding), milliseconds(row.time_ms.idle));
  out += bytes_known(row)
             ? fmt::format("sent           {} MB a step by the busiest rank{}", megabytes(sent),
                           bytes_computed(row) ? " (computed, not counted)" : "")
             : "sent           not known";
  out += fmt::format("; least possible {} MB\n", megabytes(row.bytes_minimum_per_step));
  if (all_ranks > 0)
    out += fmt::format("peak memory    {} MB on rank {}{}; all ranks {} MB\n",
                       megabytes(static_cast<double>(largest->at_peak.total())), largest->rank,
                       resident_text(*largest), megabytes(static_cast<double>(all_ranks)));
  else if (largest)  // another program does not say what of its memory is of which kind
    out += fmt::format("peak memory    not known{}\n", resident_text(*largest));
  for (const RunFigure& figure : row.figures)
    out += fmt::format("figure         {} {:.4g} {} (mean over workers; max {:.4g})\n", figure.name,
                       figure.mean, figure.unit, figure.max);
  if (const auto& stale = row.staleness)
    out += fmt::format(
        "staleness      {:.0f} updates ({:.3g} ms) in the median, {:.0f} at 95%, {:.0f} at "
        "most{}\n",
        stale->p50, stale->ms.p50, stale->p95, stale->max,
        stale->dropped > 0 ? fmt::format("; {} gradients dropped", stale->dropped) : "");
  if (!row.worker_steps.empty())
    out += fmt::format("worker steps   {}\n", fmt::join(row.worker_steps, ", "));
  for (const std::string& how : row.lost_workers) out += fmt::format("lost           {}\n", how);
  for (const std::string& how : row.slow_workers) out += fmt::format("slow           {}\n", how);
  out += survival_text(row);
  if (const std::string cause = disturbance(row); !cause.empty())
    out += fmt::format("disturbed      {}\n", cause);
  for (const std::string& hash : row.parameter_hashes)
    out += fmt::format("parameters     {}{}\n", hash, shown_text(row));
  return out;
}

}  // namespace ringside::runner
