#include "core/observe/run_record.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>

#include "core/base/error.h"
#include "core/base/json_fields.h"
#include "core/base/utf8.h"
#include "core/observe/dtypes.h"
#include "core/observe/over_ranks.h"
#include "core/plan/device_traits.h"
#include "core/plan/kept_plan.h"
#include "core/plan/mesh.h"
#include "core/plan/slices.h"

namespace ringside {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

template <class Seconds>
double mean_ms(const std::vector<const StepTime*>& steps, Seconds seconds) {
  if (steps.empty()) return 0;
  double sum = 0;
  for (const StepTime* step : steps) sum += seconds(*step);
  return 1e3 * sum / static_cast<double>(steps.size());
}

double mean_ms(const std::vector<const StepTime*>& steps, Activity activity) {
  return mean_ms(steps, [activity](const StepTime& step) {
    return step.by_activity[static_cast<std::size_t>(activity)];
  });
}

void add_times(RunRecord& row, std::size_t warmup) {
  std::vector<const StepTime*> measured;
  for (const RankRecord& rank : row.ranks) {
    std::vector<double> totals;
    for (std::size_t s = warmup; s < rank.steps.size(); ++s) {
      measured.push_back(&rank.steps[s]);
      totals.push_back(1e3 * rank.steps[s].total);
    }
    const Quantiles of_rank = quantiles(std::move(totals));
    if (of_rank.median > row.step_ms.median) row.step_ms = of_rank;
    row.time_ms.serving_optimizer =
        std::max(row.time_ms.serving_optimizer, rank.serving_optimizer_ms);
  }
  auto& time = row.time_ms;
  time.compute = mean_ms(measured, Activity::compute);
  time.communication = mean_ms(measured, Activity::communication);
  time.exposed = mean_ms(measured, Activity::exposed);
  time.optimizer = mean_ms(measured, Activity::optimizer);
  time.data = mean_ms(measured, Activity::data);
  time.encoding = mean_ms(measured, Activity::encoding);
  time.idle = mean_ms(measured, [](const StepTime& step) { return step.total; }) - time.compute -
              time.exposed - time.optimizer - time.data - time.encoding;
}

/// The number of steps that a rank trained.
std::int64_t trained_steps(const RankRecord& rank) {
  return std::max(static_cast<std::int64_t>(rank.steps.size()), rank.lost_after);
}

/// The steps of each worker, if not all did equally many.
std::vector<std::int64_t> steps_of_workers(const RunRecord& row) {
  std::vector<std::int64_t> steps;
  for (std::size_t r = 0; r < row.ranks.size(); ++r)
    if (row.plan.ranks[r].worker >= 0) steps.push_back(trained_steps(row.ranks[r]));
  const bool differ =
      std::any_of(steps.begin(), steps.end(), [&](std::int64_t one) { return one != steps[0]; });
  return differ ? steps : std::vector<std::int64_t>{};
}

std::vector<RunFigure> figures_of(const std::vector<RankRecord>& ranks) {
  std::vector<RunFigure> figures;
  std::vector<double> reports;  // of each figure: how many workers report it
  for (const RankRecord& rank : ranks)
    for (const SchemeFigure& one : rank.figures) {
      const auto known = std::find_if(figures.begin(), figures.end(), [&](const RunFigure& figure) {
        return figure.name == one.name;
      });
      const auto i = static_cast<std::size_t>(known - figures.begin());
      if (known == figures.end()) {
        figures.push_back({one.name, one.unit, 0, one.value});
        reports.push_back(0);
      }
      figures[i].mean += one.value;  // the sum, until it is divided below
      figures[i].max = std::max(figures[i].max, one.value);
      ++reports[i];
    }
  for (std::size_t i = 0; i < figures.size(); ++i) figures[i].mean /= reports[i];
  return figures;
}

/// The time of all measured steps together, in seconds, of the slowest worker. The figure is a sum
/// and not a median, so that it includes work that a scheme does in only a few steps.
double measured_s(const RunRecord& row) {
  double slowest_s = 0;
  for (const RankRecord& rank : row.ranks) {
    double seconds = 0;
    for (auto s = static_cast<std::size_t>(row.plan.train.warmup); s < rank.steps.size(); ++s)
      seconds += rank.steps[s].total;
    slowest_s = std::max(slowest_s, seconds);
  }
  return slowest_s;
}

/// The workers of all stages of a pipeline compute the same samples, which count once.
double samples_per_s(const RunRecord& row) {
  const double seconds = measured_s(row);
  std::int64_t samples = 0;
  for (std::size_t r = 0; r < row.ranks.size(); ++r) {
    const int worker = row.plan.ranks[r].worker;
    const std::int64_t steps = trained_steps(row.ranks[r]);
    if (worker >= 0 && mesh_place(row.plan, worker).pipeline == 0)
      samples +=
          samples_of(row.plan, worker) * std::max<std::int64_t>(0, steps - row.plan.train.warmup);
  }
  return seconds > 0 ? static_cast<double>(samples) / seconds : 0;
}

std::optional<double> cores_at_work(const RunRecord& row) {
  const double seconds = measured_s(row);
  if (row.plan.cluster || seconds <= 0) return {};
  double processor_s = 0;
  for (const RankRecord& rank : row.ranks) processor_s += rank.processor_s;
  return processor_s / seconds;
}

/// The largest number of cores that the ranks of a run keep busy. (Threads that move data beside
/// compute share their rank's cores.)
int usable_cores(const RunPlan& plan) {
  const std::int64_t threads =
      device_traits(plan.device.kind).on_processor ? plan.device.threads : 1;
  return static_cast<int>(threads * static_cast<std::int64_t>(plan.ranks.size()));
}

/// Adds the record of a finished rank to `rank`, which holds the rank's plan.
void add_record(ordered_json& rank, const RankRecord& record) {
  rank.update(to_json(row_fields_of(const_cast<RankRecord&>(record))));  // to_json() only reads
  rank["memory"]["peak"] = record.at_peak.total();
  if (record.host_memory) rank["memory"]["host"]["peak"] = record.host_memory->at_peak.total();
  if (record.checkpoints) rank["checkpoints"] = to_json(fields_to_read(*record.checkpoints));
  if (record.pipeline) rank["pipeline"] = to_json(fields_to_read(*record.pipeline));
}

/// The quantile of sorted values, of which there are some.
double at_share(const std::vector<double>& values, double share) {
  const double rank = std::ceil(share * static_cast<double>(values.size()));
  return values[static_cast<std::size_t>(std::max(1.0, rank)) - 1];
}

}  // namespace

Quantiles quantiles(std::vector<double> values) {
  if (values.empty()) return {};
  std::sort(values.begin(), values.end());
  return {at_share(values, 0.5), at_share(values, 0.1), at_share(values, 0.9)};
}

double lower_quartile(std::vector<double> values) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  return at_share(values, 0.25);
}

RunRecord make_row(const RunPlan& plan, std::vector<RankRecord> records) {
  RunRecord row;
  row.plan = plan;
  row.ranks = std::move(records);
  for (const RankRecord& rank : row.ranks) {
    row.parameters = std::max(row.parameters, rank.parameters);
    row.bytes_minimum_per_step = std::max(row.bytes_minimum_per_step, rank.minimum_bytes_per_step);
  }
  row.at_end = parameters_at_end(row.ranks, row.parameter_hashes);
  row.loss = losses_of_steps(plan, row.ranks);
  row.evaluations = evaluations_of(plan, row.ranks);
  row.staleness = staleness_of(row.ranks);
  row.worker_steps = steps_of_workers(row);
  if (plan.promise == Promise::replayed && plan.defines == 0)
    row.held_out_over_time = held_out_over_time(plan, row.ranks);
  add_times(row, static_cast<std::size_t>(plan.train.warmup));
  row.samples_per_s = samples_per_s(row);
  double tokens = 0;
  for (const RankRecord& rank : row.ranks) {
    if (rank.work) row.work = rank.work;
    tokens = std::max(tokens, rank.tokens_per_sample);
    row.skipped_steps = std::max(row.skipped_steps, rank.skipped_steps);
  }
  row.tokens_per_s = row.samples_per_s * tokens;
  row.figures = figures_of(row.ranks);
  row.cores = cores_at_work(row);
  return row;
}

std::int64_t memory_peak(const RunRecord& row) {
  std::int64_t most = 0;
  for (const RankRecord& rank : row.ranks) most = std::max(most, rank.at_peak.total());
  return most;
}

bool bytes_computed(const RunRecord& row) {
  return std::any_of(row.ranks.begin(), row.ranks.end(),
                     [](const RankRecord& rank) { return rank.bytes_computed; });
}

bool bytes_known(const RunRecord& row) {
  return std::all_of(row.ranks.begin(), row.ranks.end(),
                     [](const RankRecord& rank) { return rank.bytes_known; });
}

std::optional<double> perplexity(const RunRecord& row, const Evaluation& evaluation) {
  if (row.tokens_per_s == 0) return {};
  return std::exp(evaluation.first_term);
}

std::string disturbance(const RunRecord& row) {
  if (row.status != "ok" || !row.load) return {};
  return disturbance(*row.load, usable_cores(row.plan));
}

double lost_share(const RunRecord& row) {
  if (disturbance(row).empty()) return 0;
  return lost_share(*row.load, usable_cores(row.plan));
}

RunRecord failed_row(const RunPlan& plan, const std::string& error) {
  RunRecord row;
  row.plan = plan;
  row.status = "failed";
  row.error = utf8_text(error);
  return row;
}

/// The fields of a record without those of its plan. The record's JSON has both, and figures
/// derived from them.
static Fields fields_of(RunRecord& row) {
  auto& time = row.time_ms;
  return {{"attempt", &row.attempt},
          {"parameters", &row.parameters},
          {"loss", &row.loss},
          {"skipped_steps", &row.skipped_steps},
          {"evaluations", Structs(&row.evaluations)},
          {"parameter_hashes", &row.parameter_hashes},
          {"parameters_at_end", fields_of(row.at_end)},
          {"samples_per_s", &row.samples_per_s},
          {"tokens_per_s", &row.tokens_per_s},
          {"step_ms", Fields{{"median", &row.step_ms.median},
                             {"p10", &row.step_ms.p10},
                             {"p90", &row.step_ms.p90}}},
          {"time_ms", Fields{{"compute", &time.compute},
                             {"communication", &time.communication},
                             {"exposed", &time.exposed},
                             {"optimizer", &time.optimizer},
                             {"data", &time.data},
                             {"encoding", &time.encoding},
                             {"idle", &time.idle},
                             {"serving_optimizer", &time.serving_optimizer}}},
          {"cores", &row.cores},
          {"bytes_minimum_per_step", &row.bytes_minimum_per_step},
          {"staleness", Structs(&row.staleness)},
          {"worker_steps", &row.worker_steps},
          {"lost_workers", &row.lost_workers},
          {"held_out_over_time", Structs(&row.held_out_over_time)},
          {"replay", Structs(&row.replay)},
          {"figures", Structs(&row.figures)},
          {"work", Structs(&row.work)},
          {"measured_peak", Structs(&row.measured_peak)},
          {"predicted", Structs(&row.predicted)},
          {"bounds", Structs(&row.bounds)},
          {"load", Structs(&row.load)},
          {"status", &row.status},
          {"error", &row.error}};
}

Fields fields_of(Evaluation& evaluation) {
  return {{"step", &evaluation.step},
          {"loss", &evaluation.loss},
          {"first_term", &evaluation.first_term},
          {"accuracy", &evaluation.accuracy},
          {"seconds", &evaluation.seconds},
          {"training_s", &evaluation.training_s}};
}

Fields fields_of(RunStaleness& staleness) {
  return {
      {"p50", &staleness.p50},
      {"p95", &staleness.p95},
      {"max", &staleness.max},
      {"ms",
       Fields{{"p50", &staleness.ms.p50}, {"p95", &staleness.ms.p95}, {"max", &staleness.ms.max}}},
      {"histogram", &staleness.histogram},
      {"dropped", &staleness.dropped}};
}

Fields fields_of(RunParameters& parameters) {
  return {{"shown_by", &parameters.shown_by},
          {"differing", &parameters.differing},
          {"blocks", &parameters.blocks},
          {"keepers", &parameters.keepers}};
}

Fields fields_of(Replay& replay) {
  return {{"parameter_hashes", &replay.parameter_hashes},
          {"loss", &replay.loss},
          {"evaluations", Structs(&replay.evaluations)},
          {"error", &replay.error}};
}

Fields fields_of(RunFigure& figure) {
  return {
      {"name", &figure.name}, {"unit", &figure.unit}, {"mean", &figure.mean}, {"max", &figure.max}};
}

Fields fields_of(StepBounds& bounds) {
  return {{"low_ms", &bounds.low_ms}, {"high_ms", &bounds.high_ms}};
}

Fields fields_of(Prediction& predicted) {
  return {{"step_ms", &predicted.step_ms},
          {"bounds", Structs(&predicted.bounds)},
          {"memory_peak", &predicted.memory_peak},
          {"error", &predicted.error}};
}

Fields fields_of(WorldPeriod& period) {
  return {{"from", &period.from},     {"world", &period.world},
          {"cause", &period.cause},   {"lost_steps", &period.lost_steps},
          {"left_s", &period.left_s}, {"down_s", &period.down_s}};
}

Fields fields_of(Restart& restart) {
  return {{"error", &restart.error},
          {"from", &restart.from},
          {"lost_steps", &restart.lost_steps},
          {"down_s", &restart.down_s}};
}

ordered_json to_json(const RunRecord& row) {
  const RunPlan& plan = row.plan;
  const TrainConfig& train = plan.train;
  ordered_json out = {{"schema", RunRecord::schema}};
  out.update(to_json(plan));
  out.update(to_json(fields_to_read(row)));
  for (std::size_t r = 0; r < plan.ranks.size(); ++r) {
    ordered_json& rank = out["ranks"][r];
    rank["role"] = plan.ranks[r].role();
    if (r < row.ranks.size()) add_record(rank, row.ranks[r]);
  }
  for (std::size_t e = 0; e < row.evaluations.size(); ++e) {
    const auto value = perplexity(row, row.evaluations[e]);
    out["evaluations"][e]["perplexity"] = value ? ordered_json(*value) : ordered_json();
  }
  if (!row.slow_workers.empty()) out["slow_workers"] = row.slow_workers;
  for (const Restart& restart : row.restarts)
    out["restarts"].push_back(to_json(fields_to_read(restart)));
  for (const WorldPeriod& period : row.worlds)
    out["worlds"].push_back(to_json(fields_to_read(period)));
  const std::string disturbed = disturbance(row);
  out["disturbed"] = disturbed.empty() ? ordered_json() : ordered_json(disturbed);
  out["shared_device"] = shares_device(plan);
  out["gpus"] = gpus(plan);
  out["dtypes"] = dtypes_json(train);
  out.update({{"seed", train.seed},
              {"global_batch", train.global_batch},
              {"micro_batch", train.micro_batch},
              {"accumulation", train.accumulation},
              {"steps", train.steps},
              {"warmup", train.warmup}});
  return out;
}

RunRecord row_from_json(const json& in, const DefaultOptions& defaults) {
  if (const int schema = in.at("schema").get<int>(); schema != RunRecord::schema)
    throw Error("the row has schema {}, but this program reads schema {}; run the comparison anew",
                schema, RunRecord::schema);
  for (const char* of_every_row : {"experiment", "run", "world", "ranks", "loss", "samples_per_s",
                                   "step_ms", "time_ms", "status"})
    in.at(of_every_row);
  RunRecord row;
  row.plan = kept_plan_from_json(in, defaults);
  read_json(in, fields_of(row), Absent::keeps_default);
  row.slow_workers = in.value("slow_workers", std::vector<std::string>());
  if (const auto worlds = in.find("worlds"); worlds != in.end())
    for (const json& period : *worlds)
      row.worlds.push_back(read_json<WorldPeriod>(period, Absent::keeps_default));
  if (const auto restarts = in.find("restarts"); restarts != in.end())
    for (const json& restart : *restarts)
      row.restarts.push_back(read_json<Restart>(restart, Absent::keeps_default));
  if (row.status != "ok") return row;
  for (const json& rank : in.at("ranks")) {
    read_json(rank, row_fields_of(row.ranks.emplace_back()), Absent::keeps_default);
    if (const auto cost = rank.find("checkpoints"); cost != rank.end())
      row.ranks.back().checkpoints = read_json<CheckpointCost>(*cost, Absent::keeps_default);
    if (const auto pipeline = rank.find("pipeline"); pipeline != rank.end())
      row.ranks.back().pipeline = read_json<PipelineRecord>(*pipeline, Absent::keeps_default);
  }
  return row;
}

}  // namespace ringside
