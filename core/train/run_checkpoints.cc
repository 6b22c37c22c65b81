#include "core/train/run_checkpoints.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "core/base/json_fields.h"
#include "core/base/seconds_now.h"
#include "core/plan/saved_steps.h"
#include "core/plan/worlds.h"
#include "core/train/saved_state.h"

namespace ringside {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

/// JSON has no numbers that are not finite.
ordered_json json_of(double value) {
  if (std::isfinite(value)) return value;
  return std::isnan(value) ? "nan" : value > 0 ? "inf" : "-inf";
}
double value_in(const json& value) {
  if (!value.is_string()) return value.is_null() ? std::nan("") : value.get<double>();
  const double infinite = std::numeric_limits<double>::infinity();
  return value == "inf" ? infinite : value == "-inf" ? -infinite : std::nan("");
}
std::vector<double> values_in(const json& values) {
  std::vector<double> out;
  for (const json& one : values) out.push_back(value_in(one));
  return out;
}

/// The losses of a rank, for the record of a run that goes on: of its micro-batches in order. `own`
/// are the assignments that it has done, where it does not do every step.
ordered_json losses_of(const RankRecord& record, int worker, std::optional<std::int64_t> own) {
  ordered_json out = {{"worker", worker}, {"losses", ordered_json::array()}};
  for (const double loss : record.losses) out["losses"].push_back(json_of(loss));
  if (own) out["assignments"] = *own;
  if (!record.loss_places.empty()) out["places"] = record.loss_places;
  for (const RankRecord::Evaluation& one : record.evaluations)
    out["evaluations"].push_back(to_json(one));
  return out;
}

/// What the ranks of a run have of every step, moved from so many ranks to another number of them:
/// `each_from` values of a step for each rank, and `each` for this one, worker `worker`.
template <class Value>
std::vector<Value> own_part(const std::vector<std::vector<Value>>& ranks, std::size_t each_from,
                            std::size_t each, std::size_t worker) {
  std::vector<Value> out;
  const std::size_t steps = ranks.empty() ? 0 : ranks[0].size() / each_from;
  for (std::size_t s = 0; s < steps; ++s)
    for (std::size_t m = worker * each; m < (worker + 1) * each; ++m)
      out.push_back(ranks[m / each_from][s * each_from + m % each_from]);
  return out;
}

/// The losses of steps that had other micro-batches: their sum in the order of ranks as that of the
/// first of `each` micro-batches, or, on a rank that has not the first, zeros.
std::vector<double> sums_of_steps(const std::vector<std::vector<double>>& ranks,
                                  std::size_t each_from, std::size_t each, bool first) {
  std::vector<double> out;
  const std::size_t steps = ranks.empty() ? 0 : ranks[0].size() / each_from;
  for (std::size_t s = 0; s < steps; ++s) {
    out.resize(out.size() + each);
    for (const std::vector<double>& rank : ranks)
      for (std::size_t m = 0; first && m < each_from; ++m) out[s * each] += rank[s * each_from + m];
  }
  return out;
}
std::vector<LossValue> summed(const std::vector<std::vector<LossValue>>& ranks, std::int64_t each,
                              bool first) {
  std::vector<LossValue> out(static_cast<std::size_t>(each));
  for (const std::vector<LossValue>& rank : ranks)
    for (const LossValue& share : rank)
      if (first) out[0] += share;
  return out;
}

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

std::int64_t micro_batches_of_step(const RunPlan& plan) {
  return plan.world * plan.train.accumulation;
}

}  // namespace

RunCheckpoints::RunCheckpoints(const RankContext& context, const Model& model, SyncScheme& scheme)
    : context_(context),
      model_(model),
      scheme_(scheme),
      part_(context, RankPart::worker, [this] { scheme_.keep_in_touch(); }) {
  if (is_elastic(context.plan) && context.self().worker == 0)
    part_.copies_say({{"run", to_json(context.plan)},
                      {"parameters", model.parameter_count()},
                      {"program", context.program}});
}

bool RunCheckpoints::saves_after(std::int64_t step) const {
  return !scheme_.says_when_to_save() &&
         (saved_after(context_.plan, step + 1) || copied_after(context_.plan, step + 1));
}

RunCheckpoints::Asked RunCheckpoints::asked(std::int64_t step) {
  const RunPlan& plan = context_.plan;
  const bool is_asked = !plan.checkpoint.path.empty() || is_elastic(plan);
  if (!is_asked || scheme_.says_when_to_save()) return Asked::nothing;
  double asked[] = {context_.store.try_get(stop_key) ? 1.0 : 0.0,
                    is_elastic(plan) && context_.store.try_get(change_key) ? 1.0 : 0.0};
  scheme_.sum(asked);
  if (asked[0] > 0 || step + 1 == plan.until) return Asked::stop;
  const bool may_change = copied_after(plan, step + 1) && step + 1 < plan.train.steps;
  return asked[1] > 0 && may_change ? Asked::change : Asked::nothing;
}

void RunCheckpoints::take_statistics() {
  const std::int64_t first = context_.self().worker * context_.plan.train.accumulation;
  for (std::int64_t m = 0; m < context_.plan.train.accumulation; ++m) {
    HostRange own{.key = {statistics_state, first + m}, .begin = 0, .values = {}};
    for (const auto& unit : model_.units)
      for (const Unit::Statistic& statistic : unit->statistics()) {
        const Tensor& from = m == 0 || statistic.later.empty()
                                 ? statistic.values
                                 : statistic.later[static_cast<std::size_t>(m - 1)];
        std::vector<float> values(static_cast<std::size_t>(from.count()));
        context_.device.read(from, std::as_writable_bytes(std::span(values)));
        own.values.insert(own.values.end(), values.begin(), values.end());
      }
    part_.add(std::move(own));
  }
}

void RunCheckpoints::save(std::int64_t step, const LossScale& loss_scale, const RankRecord& record,
                          Asked asked) {
  const std::int64_t done = step + 1;
  if (context_.self().worker == 0 && asked != Asked::nothing) say_stop(context_, done);
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
  const int worker = context_.self().worker;
  part_.begin(done);
  scheme_.visit_state([&](const StateRange& range) { part_.take(range); });
  take_statistics();
  std::function<void(const OpenFolder&)> then;
  if (worker == 0)
    then = [this, done, scale = loss_scale.state()](const OpenFolder& folder) {
      write_manifest_of(done, scale, folder);
    };
  const bool by_itself = scheme_.says_when_to_save();
  ordered_json entry = {
      {"losses", losses_of(record, worker, by_itself ? std::optional(own) : std::nullopt)}};
  if (worker == 0) entry["loss_scale"] = json_of(loss_scale.state());
  part_.write(std::move(entry), on_disk, std::move(then));
}

/// Runs beside training.
void RunCheckpoints::write_manifest_of(std::int64_t done, const LossScale::State& loss_scale,
                                       const OpenFolder& folder) const {
  const RunPlan& plan = context_.plan;
  Manifest manifest;
  manifest.step = done;
  manifest.parameters = model_.parameter_count();
  manifest.program = context_.program;
  manifest.run = to_json(plan);
  manifest.scalars["loss_scale"] = json_of(loss_scale);
  const auto list = [&](const json& part) {
    if (part.contains("file")) manifest.files.push_back(checkpoint_file_from_json(part.at("file")));
  };
  for (int w = 0; w < plan.world; ++w) {
    const json part = written_part(context_, RankPart::worker, w, done);
    list(part);
    manifest.scalars["losses"].emplace_back(part.at("losses"));
  }
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
  const Checkpoint from = resumed_checkpoint(plan, model_.parameter_count());
  SavedState saved(from, plan, plan.world * std::max(1, scheme_.own_replicas()));
  bool shows = false;  // or servers have the state
  scheme_.visit_state([&](const StateRange& range) {
    saved.write(range);
    shows = true;
  });
  saved.takes(statistics_state);
  restore_statistics(from);
  loss_scale.restore(saved_loss_scale(from.manifest()));
  scheme_.restored(loss_scale.skipped());
  part_.went_on_after(from.manifest().step, shows ? saved.note() : "");
  const json losses = from.manifest().scalars.at("losses");
  const auto worker = static_cast<std::size_t>(context_.self().worker);
  const bool same = saved.is_of_same_algorithm();
  if (!same || !restore_own_losses(from.manifest(), record))
    restore_losses(from.manifest(), record);
  return same ? losses.at(worker).value("assignments", from.manifest().step) : from.manifest().step;
}

/// Of the same scheme at the same world, whose workers may have done steps of their own. Returns
/// whether they have as many micro-batches as then.
bool RunCheckpoints::restore_own_losses(const Manifest& manifest, RankRecord& record) const {
  if (manifest.run.at("train").at("accumulation") != context_.plan.train.accumulation) return false;
  const json own =
      manifest.scalars.at("losses").at(static_cast<std::size_t>(context_.self().worker));
  record.losses = values_in(own.at("losses"));
  record.loss_places = own.value("places", std::vector<std::int64_t>());
  for (const json& one : own.value("evaluations", json::array()))
    record.evaluations.push_back(read_json<RankRecord::Evaluation>(one));
  return true;
}

void RunCheckpoints::restore_losses(const Manifest& manifest, RankRecord& record) const {
  const RunPlan& plan = context_.plan;
  const json losses = manifest.scalars.at("losses");
  const auto each_from = manifest.run.at("train").at("accumulation").get<std::int64_t>();
  const std::int64_t each = plan.train.accumulation;
  const bool same_micro_batches =
      static_cast<std::int64_t>(losses.size()) * each_from == micro_batches_of_step(plan);
  std::vector<std::vector<double>> values;
  std::map<std::int64_t, std::vector<std::vector<LossValue>>> shares;
  std::map<std::int64_t, double> seconds;
  for (const json& rank : losses) {
    if (rank.contains("assignments")) return;  // each worker had steps of its own
    values.push_back(values_in(rank.at("losses")));
    for (const json& one : rank.value("evaluations", json::array())) {
      const auto evaluation = read_json<RankRecord::Evaluation>(one);
      shares[evaluation.step].push_back(evaluation.shares);
      seconds[evaluation.step] = evaluation.seconds;
    }
  }
  const auto worker = static_cast<std::size_t>(context_.self().worker);
  if (!same_micro_batches) {
    // Their sums are known, and stand where the first micro-batch would.
    record.losses = sums_of_steps(values, static_cast<std::size_t>(each_from),
                                  static_cast<std::size_t>(each), worker == 0);
    for (const auto& [step, ranks] : shares)
      record.evaluations.push_back({step, 0, summed(ranks, each, worker == 0), seconds[step]});
    return;
  }
  record.losses =
      own_part(values, static_cast<std::size_t>(each_from), static_cast<std::size_t>(each), worker);
  for (const auto& [step, ranks] : shares)
    record.evaluations.push_back({step, 0,
                                  own_part(ranks, static_cast<std::size_t>(each_from),
                                           static_cast<std::size_t>(each), worker),
                                  seconds[step]});
}

void RunCheckpoints::restore_statistics(const Checkpoint& from) {
  const RunPlan& plan = context_.plan;
  std::int64_t count = 0;
  for (const auto& unit : model_.units)
    for (const Unit::Statistic& statistic : unit->statistics()) count += statistic.values.count();
  if (count == 0) return;
  const std::map<StateKey, std::int64_t> state = from.state();
  const auto saved = std::ranges::count_if(
      state, [](const auto& one) { return one.first.name == statistics_state; });
  if (saved != micro_batches_of_step(plan))
    throw Error(
        "{}: steps had {} micro-batches, each with running statistics of its own, but now they "
        "have {}; set train.micro_batch so that they have as many",
        plan.resume, saved, micro_batches_of_step(plan));
  const std::int64_t first = context_.self().worker * plan.train.accumulation;
  std::vector<float> values(static_cast<std::size_t>(count));
  for (std::int64_t m = 0; m < plan.train.accumulation; ++m) {
    from.read({statistics_state, first + m}, 0, values);
    std::size_t at = 0;
    for (const auto& unit : model_.units)
      for (std::size_t s = 0; s < unit->statistics().size(); ++s) {
        Unit::Statistic& statistic = unit->statistic(s);
        while (static_cast<std::int64_t>(statistic.later.size()) < m)
          statistic.later.push_back(
              context_.device.tensor(statistic.values.shape(), MemoryKind::parameter));
        const Tensor& to =
            m == 0 ? statistic.values : statistic.later[static_cast<std::size_t>(m - 1)];
        const auto own = static_cast<std::size_t>(to.count());
        context_.device.write(to, std::as_bytes(std::span(values).subspan(at, own)));
        at += own;
      }
  }
}

}  // namespace ringside
