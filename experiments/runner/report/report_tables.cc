#include "experiments/runner/report/report_tables.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "core/base/counted.h"
#include "core/plan/mesh.h"
#include "experiments/runner/registry/registry.h"

namespace ringside::runner {
namespace {

bool any(const std::vector<CaseSummary>& cases, bool (*has)(const CaseSummary&)) {
  return std::any_of(cases.begin(), cases.end(), has);
}

/// Makes text fit for a cell: a cause of failure becomes one line without characters that break a
/// table.
std::string cell(std::string text) {
  std::replace(text.begin(), text.end(), '|', '/');
  std::replace(text.begin(), text.end(), '\n', ' ');
  return text;
}

bool own_algorithm(const CaseSummary& one) { return one.plan.promise != Promise::same_run; }

/// Whether the identity is about runs with these options: whether names and switches are those that
/// it sets, or else the defaults.
bool concerns(const Identity& identity, const SchemeInfo& scheme, const Options& options) {
  const auto text = [](const FieldValue& value) -> std::optional<std::string> {
    if (const auto* choice = std::get_if<Choice>(&value)) return std::string(choice->name());
    if (const auto* flag = std::get_if<bool*>(&value)) return **flag ? "true" : "false";
    if (const auto* name = std::get_if<std::string*>(&value)) return **name;
    return {};
  };
  const Fields own = options.fields(), defaults = scheme.defaults.fields();
  for (std::size_t i = 0; i < own.size(); ++i) {
    std::optional<std::string> wanted = text(defaults[i].value);
    if (!wanted) continue;
    const std::string key = fmt::format("scheme.{}.{}=", scheme.name, own[i].name);
    for (const std::string& setting : identity.settings)
      if (setting.starts_with(key)) wanted = setting.substr(key.size());
    if (text(own[i].value) != wanted) return false;
  }
  return true;
}

/// The schemes against which the test suite holds such runs of this scheme: "; tested against
/// single, local_sgd". Schemes of plug-ins are held by `ringside check-scheme` alone, so all that
/// is known here is what they claim.
std::string identities_text(const RunPlan& plan) {
  std::vector<std::string_view> others;
  bool tested = true;
  for (const SchemeInfo& row : scheme_rows()) {
    if (row.name != plan.scheme && row.former_name != plan.scheme) continue;
    for (const Identity& one : row.identities) {
      if (!concerns(one, row, plan.options) ||
          std::find(others.begin(), others.end(), one.other) != others.end())
        continue;
      others.push_back(one.other);
      tested = tested && !row.of_plugin && !one.of_plugin;
    }
  }
  return others.empty() ? ""
                        : fmt::format("; {} {}", tested ? "tested against" : "claims to equal",
                                      fmt::join(others, ", "));
}

/// The verdict on the case, for instance "bit-identical to single; 1 of 2 repeats disturbed". A
/// note below the table names the disturbances.
std::string verdict_cell(const CaseSummary& one, bool mark_simulated) {
  if (!one.finished()) return "FAILED: " + cell(one.runs.error);
  const Proof proof = one.verdict.proof;
  std::string out(name_of(proof));
  const double difference = one.verdict.difference;
  if (!one.verdict.cause.empty()) out += ": " + one.verdict.cause;
  if (proof == Proof::identical_to_definition) out += identities_text(one.plan);
  if (proof == Proof::to_rounding ||
      (proof == Proof::different && (difference > 0 || one.verdict.cause.empty())))
    out += fmt::format(" ({:.0e})", difference);
  if (mark_simulated && one.simulated()) out += "; SIMULATED";
  if (shares_device(one.plan)) out += "; shared GPU: not a performance figure";
  if (one.runs.failed > 0)
    out += fmt::format("; {} of {} FAILED: {}", one.runs.failed,
                       counted(one.runs.repeats, "repeat"), cell(one.runs.error));
  if (one.runs.disturbed > 0)
    out += fmt::format("; {} of {} disturbed", one.runs.disturbed,
                       counted(one.runs.repeats, "repeat"));
  return out;
}

/// "[1480.2, 1573.9]"
std::string interval_cell(const std::optional<Interval>& interval) {
  if (!interval) return "-";
  return fmt::format("[{}, {}]", milliseconds(interval->low), milliseconds(interval->high));
}

/// "1.84 [1.70, 2.01]"; an interval without width is left out.
std::string ratio(const Ratio& ratio) {
  if (ratio.median < 0) return "-";
  const std::string median = fmt::format("{:.2f}", ratio.median);
  if (!ratio.interval) return median;
  const std::string low = fmt::format("{:.2f}", ratio.interval->low),
                    high = fmt::format("{:.2f}", ratio.interval->high);
  return low == high ? median : fmt::format("{} [{}, {}]", median, low, high);
}

/// "3.50"; "~3.50" for bytes that were computed.
std::string sent_cell(const CaseBytes& bytes) {
  if (!bytes.known) return "-";
  return fmt::format("{}{}", bytes.computed ? "~" : "", megabytes(bytes.sent));
}

std::string cores_cell(const CaseSummary& one) {
  if (const int used = gpus(one.plan); used > 0) return std::to_string(used);
  return one.cores ? fmt::format("{:.1f}", *one.cores) : "-";
}

/// "2 x 4": data x pipeline.
std::string mesh_cell(const RunPlan& plan) {
  return fmt::format("{} x {}", data_world(plan), plan.mesh.pipeline);
}

}  // namespace

std::string prediction_cell(double value, double scale, double error) {
  return value < 0 ? "-"
                   : fmt::format("{:.1f} ({:+.{}f}%)", value * scale, 100 * error,
                                 std::abs(error) < 0.095 ? 1 : 0);
}

bool with_utilization(const std::vector<CaseSummary>& cases) {
  return any(cases, [](const CaseSummary& one) { return one.utilization.mfu.has_value(); });
}

bool with_predictions(const std::vector<CaseSummary>& cases) {
  return any(cases, [](const CaseSummary& one) { return one.predicted.has_value(); });
}

bool with_intervals(const std::vector<CaseSummary>& cases) {
  return any(cases, [](const CaseSummary& one) { return one.simulated_ms.has_value(); });
}

bool with_all_cores(const std::vector<CaseSummary>& cases) {
  return any(cases, [](const CaseSummary& one) { return one.of_all_cores.median >= 0; });
}

bool with_meshes(const std::vector<CaseSummary>& cases) {
  return any(cases, [](const CaseSummary& one) { return has_pipeline(one.plan); });
}

bool with_encoding(const std::vector<CaseSummary>& cases) {
  return any(cases, [](const CaseSummary& one) {
    return own_algorithm(one) && one.finished() && one.time_ms.encoding > 0;
  });
}

std::string cores_column(const std::vector<CaseSummary>& cases) {
  if (any(cases, [](const CaseSummary& one) { return gpus(one.plan) > 0; })) return "GPUs";
  return any(cases, [](const CaseSummary& one) { return one.cores.has_value(); }) ? "cores" : "";
}

std::vector<TableLine> figures_table(const std::vector<CaseSummary>& cases) {
  const bool predictions = with_predictions(cases), all_cores = with_all_cores(cases);
  const bool some_measured = any(cases, [](const CaseSummary& one) { return !one.simulated(); });
  const std::string cores = cores_column(cases);
  const bool meshes = with_meshes(cases);
  TableLine names = {"scheme", "world"};
  if (meshes) names.emplace_back("mesh");
  names.emplace_back("procs");
  if (!cores.empty()) names.push_back(cores);
  names.insert(names.end(), {"samples/s", "speed-up", "eff."});
  if (all_cores) names.emplace_back("vs all cores");
  names.emplace_back("step ms");
  if (predictions) names.emplace_back("predicted");
  const bool intervals = with_intervals(cases);
  if (intervals) names.emplace_back("interval");
  const bool encoding = with_encoding(cases);
  names.insert(names.end(), {"compute", "exposed", "optim."});
  if (encoding) names.emplace_back("encoding");
  names.insert(names.end(), {"other", "MB sent", "least", "peak MB", "loss", "proof"});
  std::vector<TableLine> lines = {names};
  for (const CaseSummary& one : cases) {
    TableLine line = {one.label(), std::to_string(one.plan.world)};
    if (meshes) line.push_back(mesh_cell(one.plan));
    line.push_back(std::to_string(one.plan.ranks.size()));
    if (!one.finished()) {
      line.insert(line.end(), names.size() - line.size() - 1, "-");
    } else {
      if (!cores.empty()) line.push_back(cores_cell(one));
      line.insert(line.end(),
                  {fmt::format("{}{} ±{:2.0f}%", per_second(one.samples_per_s),
                               own_algorithm(one) ? "*" : "", 100 * one.spread),
                   ratio(one.speed_up),
                   one.efficiency ? fmt::format("{:.0f}%", 100 * *one.efficiency) : "-"});
      if (all_cores) line.push_back(ratio(one.of_all_cores));
      line.push_back(milliseconds(one.step_ms));
      if (predictions)
        line.push_back(
            one.predicted ? prediction_cell(one.predicted->step_ms, 1, one.predicted->step_ms_error)
                          : "-");
      if (intervals) line.push_back(interval_cell(one.simulated_ms));
      line.insert(line.end(), {milliseconds(one.time_ms.compute), milliseconds(one.time_ms.exposed),
                               milliseconds(one.time_ms.optimizer)});
      if (encoding) line.push_back(milliseconds(one.time_ms.encoding));
      line.insert(line.end(),
                  {milliseconds(one.time_ms.other - (encoding ? one.time_ms.encoding : 0)),
                   sent_cell(one.bytes), megabytes(one.bytes.minimum), peak_cell(one.memory.peak()),
                   computes(one.plan) ? fmt::format("{:.4f}", one.losses.final_loss) : "-"});
    }
    line.push_back(verdict_cell(one, some_measured));
    lines.push_back(std::move(line));
  }
  return lines;
}

std::vector<TableLine> scheme_figures_table(const std::vector<CaseSummary>& cases) {
  std::vector<TableLine> lines = {{"figures of schemes", "world", "figure", "unit", "mean", "max"}};
  for (const CaseSummary& one : cases)
    for (const RunFigure& figure : one.reports.figures)
      lines.push_back({one.label(), std::to_string(one.plan.world), figure.name, figure.unit,
                       fmt::format("{:.4g}", figure.mean), fmt::format("{:.4g}", figure.max)});
  return lines.size() > 1 ? lines : std::vector<TableLine>{};
}

std::vector<TableLine> utilization_table(const std::vector<CaseSummary>& cases) {
  const auto share = [](const std::optional<double>& value) {
    return value ? fmt::format("{:.1f}%", 100 * *value) : "-";
  };
  const auto giga = [](double value) { return fmt::format("{:.4g}", 1e-9 * value); };
  std::vector<TableLine> lines = {{"utilization", "world", "communication", "hidden", "overlap",
                                   "MFU", "HFU", "GFLOP", "peak", "dtype"}};
  for (const CaseSummary& one : cases) {
    if (!one.finished()) continue;
    const Utilization& used = one.utilization;
    lines.push_back({one.label(), std::to_string(one.plan.world),
                     milliseconds(one.time_ms.communication), milliseconds(one.time_ms.hidden),
                     share(one.overlap), share(used.mfu), share(used.hfu),
                     used.work ? giga(used.work->model()) : "-",
                     used.peak ? giga(used.peak->flops) : "-", used.peak ? used.peak->dtype : "-"});
  }
  return lines.size() > 1 ? lines : std::vector<TableLine>{};
}

}  // namespace ringside::runner
