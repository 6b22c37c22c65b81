#include "core/train/run_checkpoints.h"

#include <algorithm>
#include <chrono>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "core/base/seconds_now.h"
#include "core/plan/saved_steps.h"
#include "core/plan/worlds.h"
#include "core/train/part_of_run.h"
#include "core/train/saved_losses.h"
#include "core/train/saved_state.h"

namespace ringside {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

/// See saved_loss_scale().
ordered_json json_of(const LossScale::State& scale) {
  return {{"value", scale.value},
          {"good_steps", scale.good},
          {"skipped", scale.skipped},
          {"skipped_in_a_row", scale.in_a_row}};
}

/// How long a folder that several hosts share may take to show a file to another host.
constexpr double longest_delay_s = 3;

/// Blocks until worker 0 sees all files of a checkpoint. Throws Error if it does not.
void await_files(const RunPlan& plan, const OpenFolder& checkpoint, const Manifest& manifest) {
  const double end = seconds_now() + (spans_hosts(plan) ? longest_delay_s : 0);
  for (;; std::this_thread::sleep_for(std::chrono::milliseconds(50))) {
    const std::string missing = missing_file(checkpoint, manifest);
    if (missing.empty()) return;
    if (seconds_now() > end)
      throw Error(
          "{}: a rank has written this file, but worker 0 does not see it; all hosts of the run "
          "must share checkpoint.path",
          (checkpoint.path() / missing).string());
  }
}

}  // namespace

RunCheckpoints::RunCheckpoints(const RankContext& context, const Model& model, SyncScheme& scheme,
                               RunningStatistics& statistics)
    : context_(context),
      whole_(whole_run(context)),
      model_(model),
      scheme_(scheme),
      statistics_(statistics),
      part_(whole_, RankPart::worker, [this] { scheme_.keep_in_touch(); }) {
  if (seats_are_taken_again(context.plan) && context.self().worker == 0) {
    processes_.resize(static_cast<std::size_t>(context.plan.world));
    note_processes();
  }
  if (is_elastic(context.plan) && context.self().worker == 0)
    part_.copies_say({{"run", to_json(context.plan)},
                      {"parameters", model.parameter_count()},
                      {"program", context.program}});
}

/// The store tells without delay what it was asked for before. Once workers have met, one may be
/// lost at any moment.
void RunCheckpoints::note_processes() {
  for (std::size_t w = 0; w < processes_.size(); ++w)
    while (context_.store.try_get(lost_key(static_cast<int>(w), processes_[w]))) ++processes_[w];
}

bool RunCheckpoints::saves_after(std::int64_t step) const {
  return !scheme_.says_when_to_save() &&
         (saved_after(context_.plan, step + 1) || copied_after(context_.plan, step + 1));
}

RunCheckpoints::Asked RunCheckpoints::asked(std::int64_t step) {
  const RunPlan& plan = context_.plan;
  if (seats_are_taken_again(plan) && scheme_.says_when_to_save())
    return context_.store.try_get(leave_key(context_.self().worker, plan.generation))
               ? Asked::leave
               : Asked::nothing;
  const bool is_asked = !plan.checkpoint.path.empty() || is_elastic(plan);
  if (!is_asked || scheme_.says_when_to_save()) return Asked::nothing;
  double asked[] = {whole_.store.try_get(stop_key) ? 1.0 : 0.0,
                    is_elastic(plan) && whole_.store.try_get(change_key) ? 1.0 : 0.0};
  sum_over_run(context_, scheme_, asked);
  if (asked[0] > 0 || step + 1 == plan.until) return Asked::stop;
  const bool may_change = copied_after(plan, step + 1) && step + 1 < plan.train.steps;
  return asked[1] > 0 && may_change ? Asked::change : Asked::nothing;
}

void RunCheckpoints::save(std::int64_t step, const LossScale& loss_scale, const RankRecord& record,
                          Asked asked) {
  const std::int64_t done = step + 1;
  if (whole_.self().worker == 0 && asked != Asked::nothing) say_stop(whole_, done);
  const bool on_disk = writes_checkpoints(context_.plan) &&
                       (saved_after(context_.plan, done) || asked == Asked::stop);
  save_part(done, done, on_disk, loss_scale, record);
}

void RunCheckpoints::save_at(const StepAssignment& assignment, const LossScale& loss_scale,
                             const RankRecord& record) {
  save_part(assignment.saves_after, assignment.step, true, loss_scale, record);
}

void RunCheckpoints::save_part(std::int64_t done, std::int64_t own, bool on_disk,
                               const LossScale& loss_scale, const RankRecord& record) {
  const int worker = whole_.self().worker;
  part_.begin(done);
  scheme_.visit_state(
      in_whole_run(context_, model_, [&](const StateRange& range) { part_.take(range); }));
  statistics_.take(part_);
  std::function<void(const OpenFolder&)> then;
  if (worker == 0) {
    then = [this, done, scale = loss_scale.state(), processes = processes_](
               const OpenFolder& folder) { write_manifest_of(done, scale, processes, folder); };
  }
  const auto assignments = scheme_.says_when_to_save() ? std::optional(own) : std::nullopt;
  ordered_json entry = {{"losses", saved_losses(record, context_.self().worker, assignments)}};
  if (worker == 0) entry["loss_scale"] = json_of(loss_scale.state());
  part_.write(std::move(entry), on_disk, std::move(then));
}

/// Runs beside training.
void RunCheckpoints::write_manifest_of(std::int64_t done, const LossScale::State& loss_scale,
                                       const std::vector<std::int64_t>& processes,
                                       const OpenFolder& folder) const {
  const RunPlan& plan = whole_.plan;
  Manifest manifest;
  manifest.step = done;
  manifest.parameters = model_.whole_count();
  manifest.program = context_.program;
  manifest.run = to_json(plan);
  manifest.scalars["loss_scale"] = json_of(loss_scale);
  const auto list = [&](const json& part) {
    if (part.contains("file")) manifest.files.push_back(checkpoint_file_from_json(part.at("file")));
  };
  std::vector<json> parts;  // of all workers
  for (int w = 0; w < plan.world; ++w) {
    parts.push_back(written_part(whole_, RankPart::worker, w, done,
                                 processes.empty() ? 0 : processes[static_cast<std::size_t>(w)]));
    list(parts.back());
  }
  for (int w = 0; w < context_.plan.world; ++w)
    manifest.scalars["losses"].emplace_back(
        parts[static_cast<std::size_t>(worker_with_losses(context_, w))].at("losses"));
  for (int s = 0; s < plan.servers; ++s) {
    ordered_json& course = manifest.scalars["servers"].emplace_back();
    if (!has_server_part(context_, s)) continue;
    const json part = written_part(context_, RankPart::server, s, done);
    list(part);
    course = part.at("course");
  }
  const OpenFolder checkpoint = folder.inside(checkpoint_name(done));
  await_files(plan, checkpoint, manifest);
  write_manifest(checkpoint, manifest);
  remove_old_checkpoints(folder, plan.checkpoint.keep);
}

std::int64_t RunCheckpoints::restore(LossScale& loss_scale, RankRecord& record) {
  const RunPlan& plan = context_.plan;
  if (!goes_on(plan)) return 0;
  const Checkpoint from = resumed_checkpoint(plan, model_.whole_count());
  SavedState saved(from, whole_.plan, plan.world * std::max(1, scheme_.own_replicas()));
  bool shows = false;  // or servers have the state
  scheme_.visit_state(in_whole_run(context_, model_, [&](const StateRange& range) {
    saved.write(range);
    shows = true;
  }));
  saved.takes(statistics_state);
  statistics_.restore(from);
  loss_scale.restore(saved_loss_scale(from.manifest()));
  scheme_.restored(loss_scale.skipped());
  part_.went_on_after(from.manifest().step, shows ? saved.note() : "");
  RankRecord losses;
  const std::int64_t done = restore_losses(from.manifest(), plan, context_.self().worker,
                                           saved.is_of_same_algorithm(), losses);
  if (has_losses(context_)) {
    record.losses = std::move(losses.losses);
    record.loss_places = std::move(losses.loss_places);
    record.evaluations = std::move(losses.evaluations);
  }
  return done;
}

}  // namespace ringside
