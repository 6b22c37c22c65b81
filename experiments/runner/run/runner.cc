#include "experiments/runner/run/runner.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "core/base/error.h"
#include "core/base/json_fields.h"
#include "core/plan/definition.h"
#include "experiments/runner/results/attempts.h"
#include "experiments/runner/results/trace.h"
#include "experiments/runner/run/replayed_worlds.h"

namespace ringside::runner {
namespace {

/// Describes a change of the data since `data` was taken; empty if there is none.
std::string change_of(const DataState& data, const RunPlan& plan) {
  try {
    const std::string changed = first_change(part_of(data, plan), data_state(plan));
    if (changed.empty()) return {};
    return fmt::format(
        "{} changed while the comparison ran; do not change the files during a comparison",
        changed);
  } catch (const std::exception& error) {
    return error.what();
  }
}

RunOutcome run_on_same_data(const RunPlan& plan, const DataState& data, const RunMaker& maker,
                            const std::function<void(const Step&)>& on_step) {
  if (const std::string change = change_of(data, plan); !change.empty())
    return {failed_row(plan, change)};
  RunOutcome outcome = maker.make(plan, on_step);
  if (outcome.interrupted) return outcome;
  if (const std::string change = change_of(data, plan); !change.empty())
    return {failed_row(plan, change)};
  return outcome;
}

/// Makes the run again in the order that its record gives.
std::optional<Replay> replay(const RunRecord& row, const DataState& data, const RunMaker& maker) {
  std::vector<ChunkHistory> history;
  for (const RankRecord& rank : row.ranks)
    history.insert(history.end(), rank.history.begin(), rank.history.end());
  std::vector<std::int64_t> lost;
  for (std::size_t r = 0; r < row.ranks.size(); ++r)
    if (row.ranks[r].role == "lost") lost.push_back(row.plan.ranks[r].worker);
  const RunOutcome outcome = run_on_same_data(
      replay_of(row.plan, std::move(history), std::move(lost)), data, maker, [](const Step&) {});
  if (outcome.interrupted) return {};
  const RunRecord& again = outcome.row;
  return Replay{again.parameter_hashes, again.loss, again.evaluations, again.error};
}

/// Makes an elastic run again at the worlds that it had.
std::optional<Replay> replay_at_its_worlds(const RunRecord& row, const DataState& data,
                                           const RunMaker& maker) {
  return replay_worlds(row, [&](const RunPlan& plan) -> std::optional<RunRecord> {
    RunOutcome outcome = run_on_same_data(plan, data, maker, [](const Step&) {});
    if (outcome.interrupted) return {};
    return std::move(outcome.row);
  });
}

/// The histories of all ranges, for the results folder.
std::string histories(const RunRecord& row) {
  nlohmann::ordered_json out = nlohmann::ordered_json::array();
  for (const RankRecord& rank : row.ranks)
    for (const ChunkHistory& range : rank.history) out.push_back(to_json(fields_to_read(range)));
  return out.dump(1) + "\n";
}

/// Whether the last record is the attempt that counts for its run.
bool last_counts(const std::vector<RunRecord>& rows) {
  const auto counting = rows_that_count(rows);
  return std::find(counting.begin(), counting.end(), &rows.back()) != counting.end();
}

}  // namespace

RunMaker run_maker(const RankStart& start, int most_attempts) {
  return {[start](const RunPlan& plan, const std::function<void(const Step&)>& on_step) {
            return run_plan(plan, start, on_step);
          },
          start.interrupted, most_attempts};
}

std::vector<RunPlan> remaining_runs(const std::vector<RunPlan>& runs,
                                    const std::vector<RunRecord>& done, int most_attempts) {
  std::vector<RunPlan> remaining;
  for (const RunPlan& run : runs)
    if (!finished(done, run.id, most_attempts)) remaining.push_back(run);
  std::stable_sort(remaining.begin(), remaining.end(), [](const RunPlan& a, const RunPlan& b) {
    return a.listing.place < b.listing.place;
  });
  return remaining;
}

ComparisonOutcome run_comparison(const std::vector<RunPlan>& runs, std::vector<RunRecord> rows,
                                 const DataState& data, ResultsFolder& folder,
                                 const RunMaker& maker, Predictor& predictor, EventFeed& feed) {
  std::size_t tried = runs.size();  // the run that was made last
  for (std::size_t i = 0; i < runs.size();) {
    if (maker.interrupted()) return {std::move(rows), true};
    RunPlan plan = runs[i];
    if (std::exchange(tried, i) == i) plan.resume.clear();  // another attempt is a whole one
    const std::optional<Prediction> predicted = predictor.predict(runs[i]);
    const int attempts_before = attempts(rows, runs[i].id);
    if (predicted) feed.predict(runs[i], *predicted);
    feed.begin_run(i, attempts_before + 1);
    RunOutcome outcome =
        run_on_same_data(plan, data, maker, [&](const Step& step) { feed.step(step); });
    if (outcome.interrupted) return {std::move(rows), true};
    if (!outcome.collectives.empty()) {
      const std::string file = fmt::format("collectives/{}.json", runs[i].id);
      folder.write(file, outcome.collectives);
      outcome.row.error += fmt::format("; the last collectives of all ranks are in {}", file);
    }
    outcome.row.predicted = predicted;
    outcome.row.measured_peak = predictor.peak(runs[i]);
    if (outcome.row.status == "ok") outcome.row.bounds = predictor.bounds(runs[i]);
    outcome.row.attempt = attempts_before;
    bool interrupted = false;
    const bool is_replayed = runs[i].promise == Promise::replayed && computes(runs[i]);
    if (outcome.row.status == "ok" && is_replayed) {
      outcome.row.replay = replay(outcome.row, data, maker);
      interrupted = !outcome.row.replay;
    } else if (outcome.row.status == "ok" && !outcome.row.worlds.empty()) {
      outcome.row.replay = replay_at_its_worlds(outcome.row, data, maker);
      interrupted = !outcome.row.replay;
    }
    rows.push_back(std::move(outcome.row));
    RunRecord& row = rows.back();
    // Trace and histories are written before the record, because a run that has a record is not
    // made again.
    if (row.status == "ok" && last_counts(rows)) {
      folder.write(fmt::format("traces/{}.json", runs[i].id),
                   trace(row.ranks, outcome.rank_notes).dump());
      if (is_replayed) folder.write(fmt::format("histories/{}.json", runs[i].id), histories(row));
    }
    folder.append(row);
    // The details of every step have been written. They are dropped to save memory, since a
    // comparison may have many runs.
    for (RankRecord& rank : row.ranks) {
      rank.slices = {};
      rank.memory = {};
      rank.history = {};
      rank.steps = {};
    }
    const bool is_finished = finished(rows, runs[i].id, maker.most_attempts);
    feed.end_run(row, last_counts(rows), !is_finished);
    if (interrupted) return {std::move(rows), true, runs[i].id};
    if (std::string obstacle = maker.obstacle(); !obstacle.empty())
      return {std::move(rows), false, {}, std::move(obstacle)};
    if (is_finished) ++i;
  }
  return {std::move(rows), false};
}

}  // namespace ringside::runner
