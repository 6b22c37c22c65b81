#include "experiments/runner/report/case_parts.h"

#include <algorithm>
#include <string_view>

#include "core/base/counted.h"
#include "experiments/runner/report/interval.h"
#include "experiments/runner/results/attempts.h"

namespace ringside::runner {
namespace {

/// A figure of a part that is the median of the same figure of all runs.
template <class Part>
struct MedianFigure {
  std::string_view name;
  double Part::*figure;
  double (*of)(const RunRecord& row);
};

double hidden_ms(const RunRecord& row) {
  return std::max(0.0, row.time_ms.communication - row.time_ms.exposed);
}

constexpr MedianFigure<CaseTimes> time_figures[] = {
    {"compute", &CaseTimes::compute, [](const RunRecord& row) { return row.time_ms.compute; }},
    {"exposed", &CaseTimes::exposed, [](const RunRecord& row) { return row.time_ms.exposed; }},
    {"hidden", &CaseTimes::hidden, hidden_ms},
    {"optimizer", &CaseTimes::optimizer,
     [](const RunRecord& row) { return row.time_ms.optimizer + row.time_ms.serving_optimizer; }},
    {"data", &CaseTimes::data, [](const RunRecord& row) { return row.time_ms.data; }},
    {"idle", &CaseTimes::idle, [](const RunRecord& row) { return row.time_ms.idle; }},
    {"encoding", &CaseTimes::encoding, [](const RunRecord& row) { return row.time_ms.encoding; }},
    {"other", &CaseTimes::other,
     [](const RunRecord& row) {
       return row.time_ms.data + row.time_ms.idle + row.time_ms.encoding;
     }},
    {"communication", &CaseTimes::communication,
     [](const RunRecord& row) { return row.time_ms.communication; }}};

double overlap(const RunRecord& row) {
  const double communication = row.time_ms.communication;
  return communication > 0 ? hidden_ms(row) / communication : 0;
}

double most_bytes_sent(const RunRecord& row) {
  double most = 0;
  for (const RankRecord& rank : row.ranks) most = std::max(most, rank.bytes_sent_per_step);
  return most;
}

std::vector<RunFigure> scheme_figures(const CaseRecords& rows) {
  std::vector<RunFigure> out = rows[0]->figures;
  for (RunFigure& figure : out) {
    std::vector<double> means;
    for (const RunRecord* row : rows)
      for (const RunFigure& other : row->figures)
        if (other.name == figure.name) {
          means.push_back(other.mean);
          figure.max = std::max(figure.max, other.max);
        }
    figure.mean = median(means);
  }
  return out;
}

}  // namespace

Fields fields_of(CaseRuns& runs) {
  return {{"repeats", &runs.repeats},
          {"failed", &runs.failed},
          {"error", &runs.error},
          {"disturbed", &runs.disturbed},
          {"disturbance", &runs.disturbance},
          {"superseded", &runs.superseded}};
}

CaseRuns runs_of(const CaseRecords& repeats, const CaseRecords& attempts) {
  CaseRuns out;
  out.repeats = static_cast<int>(repeats.size());
  out.superseded = static_cast<int>(attempts.size() - repeats.size());
  double worst = 0;
  for (const RunRecord* row : repeats) {
    if (row->status != "ok" && out.failed++ == 0) out.error = row->error;
    const std::string cause = disturbance(*row);
    if (cause.empty()) continue;
    ++out.disturbed;
    if (const double lost = lost_share(*row); lost >= worst) {
      worst = lost;
      out.disturbance = cause;
    }
  }
  return out;
}

double median_of(const CaseRecords& rows, double (*figure)(const RunRecord& row)) {
  std::vector<double> values;
  for (const RunRecord* row : rows) values.push_back(figure(*row));
  return median(values);
}

Fields fields_of(CaseTimes& times) {
  Fields out;
  for (const auto& [name, figure, of] : time_figures) out.push_back({name, &(times.*figure)});
  return out;
}

CaseTimes times_of(const CaseRecords& finished) {
  CaseTimes out;
  for (const auto& [name, figure, of] : time_figures) out.*figure = median_of(finished, of);
  return out;
}

std::optional<double> overlap_of(const CaseRecords& finished) {
  if (times_of(finished).communication <= 0) return {};
  return median_of(finished, overlap);
}

Fields fields_of(CaseBytes& bytes) {
  return {{"bytes_sent_per_step", &bytes.sent},
          {"bytes_computed", &bytes.computed},
          {"bytes_known", &bytes.known},
          {"bytes_minimum_per_step", &bytes.minimum}};
}

CaseBytes bytes_of(const CaseRecords& finished) {
  return {.sent = median_of(finished, most_bytes_sent),
          .computed = std::any_of(finished.begin(), finished.end(),
                                  [](const RunRecord* row) { return bytes_computed(*row); }),
          .known = std::all_of(finished.begin(), finished.end(),
                               [](const RunRecord* row) { return bytes_known(*row); }),
          .minimum = finished[0]->bytes_minimum_per_step};
}

Fields fields_of(CaseReports& reports) {
  return {{"figures", Structs(&reports.figures)},
          {"staleness", Structs(&reports.staleness)},
          {"worker_steps", &reports.worker_steps},
          {"lost_workers", &reports.lost_workers},
          {"worlds", &reports.worlds}};
}

/// The worlds of an elastic run, and what its changes cost.
static std::string worlds_text(const RunRecord& row) {
  std::string out;
  std::int64_t lost = 0;
  double down_s = 0;
  for (std::size_t i = 0; i < row.worlds.size(); ++i) {
    const WorldPeriod& period = row.worlds[i];
    const bool last = i + 1 == row.worlds.size();
    const std::int64_t end = last ? row.plan.train.steps : row.worlds[i + 1].from;
    out += fmt::format("{}{} for {}", i == 0 ? "" : ", ", period.world,
                       counted(end - period.from, "step"));
    lost += period.lost_steps;
    down_s += period.down_s;
  }
  if (row.worlds.size() == 1) return fmt::format("{}: {}", out, row.worlds.front().cause);
  return out + fmt::format("; {} {} made again, and changes took {:.0f} ms each",
                           counted(lost, "step"), lost == 1 ? "was" : "were",
                           1e3 * down_s / static_cast<double>(row.worlds.size() - 1));
}

CaseReports reports_of(const CaseRecords& finished) {
  CaseReports out{.figures = scheme_figures(finished)};
  for (const RunRecord* row : finished) {
    out.lost_workers.insert(out.lost_workers.end(), row->lost_workers.begin(),
                            row->lost_workers.end());
    if (row->worlds.size() > 1 || last_world(*row) != row->plan.world)
      out.worlds.push_back(worlds_text(*row));
    if (!row->staleness || (out.staleness && out.staleness->max >= row->staleness->max)) continue;
    out.staleness = row->staleness;
    out.worker_steps = row->worker_steps;
  }
  return out;
}

Fields fields_of(CaseLosses& losses) {
  return {{"final_loss", &losses.final_loss},
          {"loss_curve", Structs(&losses.curve)},
          {"held_out_curve", Structs(&losses.held_out_curve)}};
}

CaseLosses losses_of(const CaseRecords& finished) {
  const RunRecord& row = *finished[0];
  CaseLosses out;
  if (!row.loss.empty()) out.final_loss = row.loss.back();
  out.curve = training_curve(row);
  out.held_out_curve = evaluation_curve(row);
  if (row.evaluations.empty()) return out;
  out.held_out = held_out_curve(row).back();
  out.perplexity = perplexity(row, *out.held_out);
  return out;
}

}  // namespace ringside::runner
