#include "core/observe/row.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>

#include "core/base/error.h"
#include "core/base/json_fields.h"
#include "core/base/utf8.h"

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

void add_times(Row& row, std::size_t warmup) {
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
        std::max(row.time_ms.serving_optimizer, 1e3 * rank.serving_optimizer_s);
  }
  auto& time = row.time_ms;
  time.compute = mean_ms(measured, Activity::compute);
  time.communication = mean_ms(measured, Activity::communication);
  time.exposed = mean_ms(measured, Activity::exposed);
  time.optimizer = mean_ms(measured, Activity::optimizer);
  time.data = mean_ms(measured, Activity::data);
  time.idle = mean_ms(measured, [](const StepTime& step) { return step.total; }) - time.compute -
              time.exposed - time.optimizer - time.data;
}

/// Seconds of all measured steps together, of the worker with the largest sum: work that a scheme
/// does in only a few steps counts as much as work in each step.
double measured_s(const Row& row) {
  double slowest_s = 0;
  for (const RankRecord& rank : row.ranks) {
    double seconds = 0;
    for (auto s = static_cast<std::size_t>(row.plan.train.warmup); s < rank.steps.size(); ++s)
      seconds += rank.steps[s].total;
    slowest_s = std::max(slowest_s, seconds);
  }
  return slowest_s;
}

double samples_per_s(const Row& row) {
  const TrainConfig& train = row.plan.train;
  const double seconds = measured_s(row);
  const std::int64_t samples = train.global_batch * (train.steps - train.warmup);
  return seconds > 0 ? static_cast<double>(samples) / seconds : 0;
}

std::optional<double> cores_at_work(const Row& row) {
  const double seconds = measured_s(row);
  if (row.plan.cluster || seconds <= 0) return {};
  double processor_s = 0;
  for (const RankRecord& rank : row.ranks) processor_s += rank.processor_s;
  return processor_s / seconds;
}

/// The largest number of cores that the ranks of a run keep busy. (Threads that move data beside
/// compute share their rank's cores.)
int usable_cores(const RunPlan& plan) {
  const std::int64_t threads = plan.device.kind == "cpu" ? plan.device.threads : 1;
  return static_cast<int>(threads * static_cast<std::int64_t>(plan.ranks.size()));
}

/// A rank of the plan and, if the rank finished, its record.
ordered_json rank_json(const RankPlan& plan, const RankRecord* record) {
  ordered_json out = {{"rank", plan.rank},
                      {"role", plan.role()},
                      {"worker", plan.worker},
                      {"server", plan.server},
                      {"device", plan.device},
                      {"ordinal", plan.ordinal},
                      {"environment", plan.environment}};
  if (!record) return out;
  out["host"] = record->host;
  out["bytes_sent_per_step"] = record->bytes_sent_per_step;
  out["bytes_received_per_step"] = record->bytes_received_per_step;
  out["bytes_computed"] = record->bytes_computed;
  out["evaluation"] = {{"seconds", record->evaluation_s},
                       {"bytes_sent", record->evaluation_bytes.sent},
                       {"bytes_received", record->evaluation_bytes.received}};
  out["serving_optimizer_ms"] = 1e3 * record->serving_optimizer_s;
  out["memory"] = {{"peak", record->at_peak.total()},
                   {"at_peak", to_json(record->at_peak)},
                   {"rss", record->rss},
                   {"rss_of_peers", record->rss_of_peers},
                   {"device", to_json(record->device_memory)}};
  return out;
}

RankRecord rank_from_json(const json& in) {
  RankRecord record;
  in.at("rank").get_to(record.rank);
  in.at("role").get_to(record.role);
  in.at("host").get_to(record.host);
  in.at("bytes_sent_per_step").get_to(record.bytes_sent_per_step);
  in.at("bytes_received_per_step").get_to(record.bytes_received_per_step);
  in.at("bytes_computed").get_to(record.bytes_computed);
  const json& evaluation = in.at("evaluation");
  evaluation.at("seconds").get_to(record.evaluation_s);
  evaluation.at("bytes_sent").get_to(record.evaluation_bytes.sent);
  evaluation.at("bytes_received").get_to(record.evaluation_bytes.received);
  record.serving_optimizer_s = in.at("serving_optimizer_ms").get<double>() / 1e3;
  record.at_peak = memory_use_from_json(in.at("memory").at("at_peak"));
  in.at("memory").at("rss").get_to(record.rss);
  in.at("memory").at("rss_of_peers").get_to(record.rss_of_peers);
  record.device_memory = device_memory_from_json(in.at("memory").value("device", json()));
  return record;
}

ordered_json number_or_null(const std::optional<double>& number) {
  return number ? ordered_json(*number) : ordered_json();
}

ordered_json prediction_json(const std::optional<Prediction>& predicted) {
  if (!predicted) return nullptr;
  return {{"step_ms", predicted->step_ms},
          {"memory_peak", predicted->memory_peak},
          {"error", predicted->error}};
}

/// The plan's fields; a row has them under the same names, except "id".
RunPlan plan_from_row(const json& row, const DefaultOptions& defaults) {
  json plan = row;
  plan["id"] = row.at("run");
  return run_plan_from_json(plan, defaults);
}

}  // namespace

Quantiles quantiles(std::vector<double> values) {
  if (values.empty()) return {};
  std::sort(values.begin(), values.end());
  const auto at = [&](double share) {
    const double rank = std::ceil(share * static_cast<double>(values.size()));
    return values[static_cast<std::size_t>(std::max(1.0, rank)) - 1];
  };
  return {at(0.5), at(0.1), at(0.9)};
}

Row make_row(const RunPlan& plan, std::vector<RankRecord> records) {
  Row row;
  row.plan = plan;
  row.ranks = std::move(records);
  for (const RankRecord& rank : row.ranks) {
    row.parameters = std::max(row.parameters, rank.parameters);
    row.bytes_minimum_per_step = std::max(row.bytes_minimum_per_step, rank.minimum_bytes_per_step);
    if (row.parameter_hash.empty()) row.parameter_hash = rank.parameter_hash;
    if (row.evaluations.empty()) row.evaluations = rank.evaluations;
    // Adds up micro-batch by micro-batch and rank by rank, the order in which `single` computes
    // them.
    const auto each = static_cast<std::size_t>(plan.train.accumulation);
    row.loss.resize(std::max(row.loss.size(), rank.losses.size() / each));
    for (std::size_t i = 0; i < rank.losses.size(); ++i) row.loss[i / each] += rank.losses[i];
  }
  add_times(row, static_cast<std::size_t>(plan.train.warmup));
  row.samples_per_s = samples_per_s(row);
  std::int64_t tokens = 0;
  for (const RankRecord& rank : row.ranks) {
    tokens = std::max(tokens, rank.tokens_per_sample);
    row.skipped_steps = std::max(row.skipped_steps, rank.skipped_steps);
    if (rank.staleness && (!row.staleness || row.staleness->max < rank.staleness->max))
      row.staleness = rank.staleness;
  }
  row.tokens_per_s = row.samples_per_s * static_cast<double>(tokens);
  row.cores = cores_at_work(row);
  return row;
}

std::int64_t memory_peak(const Row& row) {
  std::int64_t most = 0;
  for (const RankRecord& rank : row.ranks) most = std::max(most, rank.at_peak.total());
  return most;
}

bool bytes_computed(const Row& row) {
  return std::any_of(row.ranks.begin(), row.ranks.end(),
                     [](const RankRecord& rank) { return rank.bytes_computed; });
}

std::optional<double> perplexity(const Row& row, const RankRecord::Evaluation& evaluation) {
  if (row.tokens_per_s == 0) return {};
  return std::exp(evaluation.first_term);
}

std::string disturbance(const Row& row) {
  if (row.status != "ok" || !row.load) return {};
  return disturbance(*row.load, usable_cores(row.plan));
}

double lost_share(const Row& row) {
  if (disturbance(row).empty()) return 0;
  return lost_share(*row.load, usable_cores(row.plan));
}

Row failed_row(const RunPlan& plan, const std::string& error) {
  Row row;
  row.plan = plan;
  row.status = "failed";
  row.error = utf8_text(error);
  return row;
}

ordered_json to_json(const Row& row) {
  const RunPlan& plan = row.plan;
  const TrainConfig& train = plan.train;
  ordered_json ranks = ordered_json::array();
  for (std::size_t r = 0; r < plan.ranks.size(); ++r)
    ranks.push_back(rank_json(plan.ranks[r], r < row.ranks.size() ? &row.ranks[r] : nullptr));
  ordered_json evaluations = ordered_json::array();
  for (const auto& e : row.evaluations)
    evaluations.push_back({{"step", e.step},
                           {"loss", e.loss},
                           {"first_term", e.first_term},
                           {"perplexity", number_or_null(perplexity(row, e))},
                           {"accuracy", e.accuracy},
                           {"seconds", e.seconds}});
  const auto& time = row.time_ms;
  const std::string disturbed = disturbance(row);
  return {{"schema", Row::schema},
          {"experiment", plan.experiment},
          {"run", plan.id},
          {"label", plan.label},
          {"purpose", name_of(plan.purpose)},
          {"sum_tree", to_json(plan.sums)},
          {"scheme", plan.scheme},
          {"options", to_json(plan.options.fields())},
          {"promise", name_of(plan.promise)},
          {"device", to_json(fields_to_read(plan.device))},
          {"sim", to_json(fields_to_read(plan.sim))},
          {"cluster", plan.cluster ? ordered_json(sim::to_json(*plan.cluster)) : ordered_json()},
          {"shared_device", shares_device(plan)},
          {"world", plan.world},
          {"servers", plan.servers},
          {"repeat", plan.repeat},
          {"line", plan.line},
          {"place", plan.place},
          {"attempt", row.attempt},
          {"seed", train.seed},
          {"model", to_json(fields_to_read(plan.model))},
          {"data", to_json(fields_to_read(plan.data))},
          {"train", to_json(fields_to_read(train))},
          {"optimizer", to_json(fields_to_read(plan.optimizer))},
          {"parameters", row.parameters},
          {"dtypes",
           {{"parameter", train.precision},
            {"gradient", train.precision},
            {"communication", train.precision},
            {"master", name_of(DType::f32)},
            {"moments", name_of(DType::f32)}}},
          {"global_batch", train.global_batch},
          {"micro_batch", train.micro_batch},
          {"accumulation", train.accumulation},
          {"steps", train.steps},
          {"warmup", train.warmup},
          {"loss", row.loss},
          {"skipped_steps", row.skipped_steps},
          {"evaluations", evaluations},
          {"parameter_hash", row.parameter_hash},
          {"samples_per_s", row.samples_per_s},
          {"tokens_per_s", row.tokens_per_s},
          {"step_ms",
           {{"median", row.step_ms.median}, {"p10", row.step_ms.p10}, {"p90", row.step_ms.p90}}},
          {"time_ms",
           {{"compute", time.compute},
            {"communication", time.communication},
            {"exposed", time.exposed},
            {"optimizer", time.optimizer},
            {"data", time.data},
            {"idle", time.idle},
            {"serving_optimizer", time.serving_optimizer}}},
          {"gpus", gpus(plan)},
          {"cores", row.cores ? ordered_json(*row.cores) : ordered_json()},
          {"ranks", ranks},
          {"bytes_minimum_per_step", row.bytes_minimum_per_step},
          {"staleness", to_json(row.staleness)},
          {"predicted", prediction_json(row.predicted)},
          {"load", to_json(row.load)},
          {"disturbed", disturbed.empty() ? ordered_json() : ordered_json(disturbed)},
          {"status", row.status},
          {"error", row.error}};
}

Row row_from_json(const json& in, const DefaultOptions& defaults) {
  if (const int schema = in.at("schema").get<int>(); schema != Row::schema)
    throw Error("a row of schema {}, but this program reads schema {}; run the comparison anew",
                schema, Row::schema);
  Row row;
  row.plan = plan_from_row(in, defaults);
  in.at("parameters").get_to(row.parameters);
  in.at("loss").get_to(row.loss);
  in.at("skipped_steps").get_to(row.skipped_steps);
  for (const auto& e : in.at("evaluations"))
    row.evaluations.push_back({e.at("step").get<std::int64_t>(), e.at("loss").get<double>(),
                               e.at("first_term").get<double>(), e.at("accuracy").get<double>(),
                               e.at("seconds").get<double>()});
  in.at("parameter_hash").get_to(row.parameter_hash);
  in.at("samples_per_s").get_to(row.samples_per_s);
  in.at("tokens_per_s").get_to(row.tokens_per_s);
  const json& step = in.at("step_ms");
  row.step_ms = {step.at("median").get<double>(), step.at("p10").get<double>(),
                 step.at("p90").get<double>()};
  const json& time = in.at("time_ms");
  time.at("compute").get_to(row.time_ms.compute);
  time.at("communication").get_to(row.time_ms.communication);
  time.at("exposed").get_to(row.time_ms.exposed);
  time.at("optimizer").get_to(row.time_ms.optimizer);
  time.at("data").get_to(row.time_ms.data);
  time.at("idle").get_to(row.time_ms.idle);
  time.at("serving_optimizer").get_to(row.time_ms.serving_optimizer);
  if (const json& predicted = in.at("predicted"); !predicted.is_null())
    row.predicted = {predicted.at("step_ms").get<double>(),
                     predicted.at("memory_peak").get<std::int64_t>(),
                     predicted.at("error").get<std::string>()};
  if (const json& cores = in.at("cores"); !cores.is_null()) row.cores = cores.get<double>();
  row.load = machine_load_from_json(in.at("load"));
  in.at("attempt").get_to(row.attempt);
  in.at("status").get_to(row.status);
  in.at("error").get_to(row.error);
  if (row.status == "ok")
    for (const auto& rank : in.at("ranks")) row.ranks.push_back(rank_from_json(rank));
  in.at("bytes_minimum_per_step").get_to(row.bytes_minimum_per_step);
  row.staleness = staleness_from_json(in.at("staleness"));
  return row;
}

}  // namespace ringside
