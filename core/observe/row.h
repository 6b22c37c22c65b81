// Row: the record of one run. Everything that is printed or plotted is a function of rows.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "core/cluster/plan.h"
#include "core/observe/record.h"

namespace ringside {

struct Quantiles {
  double median = 0, p10 = 0, p90 = 0;
};

/// Fields in the order and with the names of the contract (ARCHITECTURE.md, "The contract of a
/// run"). Times of a step are those of the slowest worker's median; shares of a step are means
/// over workers and measured steps, so that compute + exposed + optimizer + data + idle = step.
struct Row {
  static constexpr int schema = 1;
  RunPlan plan;
  std::int64_t parameters = 0;
  std::vector<double> loss;  // of the global batch, per step
  std::vector<RankRecord::Evaluation> evaluations;
  std::string parameter_hash;
  double samples_per_s = 0, tokens_per_s = 0;
  Quantiles step_ms;
  struct {
    double compute = 0, communication = 0, exposed = 0, optimizer = 0, data = 0, idle = 0;
  } time_ms;
  std::vector<RankRecord> ranks;
  double bytes_minimum_per_step = 0;  // of the busiest rank
  std::string status = "ok";          // ok, failed
  std::string error;
};

/// The row of a run that finished; `records` by rank. A sample is model.context tokens.
Row make_row(const RunPlan& plan, std::vector<RankRecord> records);
/// The row of a run that did not.
Row failed_row(const RunPlan& plan, const std::string& error);

nlohmann::json to_json(const Row& row);
/// What a report needs of a row that was written before. Throws Error for another schema.
Row row_from_json(const nlohmann::json& in);

}  // namespace ringside
