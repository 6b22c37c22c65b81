#include "experiments/tools/watch/metrics_file.h"

#include <fmt/format.h>

#include <cmath>
#include <functional>
#include <vector>

#include "core/base/error.h"

namespace ringside::tools::watch {
namespace {

constexpr double interval_s = 1;

struct Label {
  std::string_view name;
  std::string value;
};
using Labels = std::vector<Label>;

/// In a label's value a backslash, a double quote and a line feed are escaped.
std::string escaped(std::string_view value) {
  std::string out;
  for (const char c : value) {
    if (c == '\\' || c == '"') out += '\\';
    out += c == '\n' ? std::string("\\n") : std::string(1, c);
  }
  return out;
}

std::string number(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "+Inf" : "-Inf";
  return fmt::format("{}", value);
}

std::string sample(std::string_view name, const Labels& labels, double value) {
  std::string out(name);
  const char* before = "{";
  for (const Label& label : labels) {
    out += fmt::format("{}{}=\"{}\"", before, label.name, escaped(label.value));
    before = ",";
  }
  return out + fmt::format("}} {}\n", number(value));
}

std::string head(std::string_view name, std::string_view type, std::string_view help) {
  return fmt::format("# HELP {0} {2}\n# TYPE {0} {1}\n", name, type, help);
}

Labels labels_of(const CaseStanding& of, const std::string& experiment) {
  const runner::PlannedRun& run = of.plan();
  return {{"experiment", experiment},
          {"case", run.label},
          {"world", std::to_string(run.world)},
          {"purpose", std::string(name_of(run.purpose))},
          {"simulated", run.simulated ? "true" : "false"}};
}

struct CaseMetric {
  std::string_view name, help;
  std::optional<double> (*value)(const CaseStanding& of);
};

std::optional<double> step_seconds(const CaseStanding& of) {
  if (of.step) return of.step->step_ms / 1e3;
  const auto median = of.median();
  return median ? std::optional(median->step_ms / 1e3) : std::nullopt;
}

std::optional<double> samples_per_second(const CaseStanding& of) {
  if (of.step) return of.step->samples_per_s;
  const auto median = of.median();
  return median ? std::optional(median->samples_per_s) : std::nullopt;
}

std::optional<double> loss(const CaseStanding& of) {
  if (of.step) return of.step->loss;
  const auto median = of.median();
  return median ? median->loss : std::nullopt;
}

std::optional<double> memory_peak(const CaseStanding& of) {
  const auto median = of.median();
  return median ? std::optional(static_cast<double>(median->memory_peak)) : std::nullopt;
}

std::optional<double> predicted_step_seconds(const CaseStanding& of) {
  if (!of.predicted || !of.predicted->error.empty()) return {};
  return of.predicted->step_ms / 1e3;
}

constexpr CaseMetric case_metrics[] = {
    {"ringside_case_runs_done", "Runs of the case that have ended.",
     [](const CaseStanding& of) { return std::optional<double>(of.done()); }},
    {"ringside_case_runs_planned", "Runs of the case.",
     [](const CaseStanding& of) { return std::optional(static_cast<double>(of.runs.size())); }},
    {"ringside_step_seconds",
     "Time of a step of the slowest worker: of the newest step, or the median once a run has "
     "ended.",
     step_seconds},
    {"ringside_samples_per_second",
     "Samples a second: of the newest step, or of all measured steps once a run has ended.",
     samples_per_second},
    {"ringside_loss", "Loss of the global batch in the newest step.", loss},
    {"ringside_memory_peak_bytes", "Largest memory peak of any rank of the case's runs.",
     memory_peak},
    {"ringside_predicted_step_seconds", "Time of a step as a simulation of this machine predicts.",
     predicted_step_seconds}};

}  // namespace

std::string metrics_text(const Standing& standing, double time) {
  if (!standing.began()) return {};
  const std::string& experiment = standing.comparison().experiment;
  std::string out;
  const auto add = [&](std::string_view name, std::string_view type, std::string_view help,
                       double value) {
    out += head(name, type, help) + sample(name, {{"experiment", experiment}}, value);
  };
  add("ringside_runs_planned", "gauge", "Runs of the comparison.", standing.planned());
  add("ringside_runs_done", "gauge", "Runs that have ended and are not made again.",
      standing.done());
  add("ringside_run_failures_total", "counter", "Runs that have failed.", standing.failures());
  add("ringside_comparison_running", "gauge", "1 while the comparison runs, 0 once it has ended.",
      standing.end() ? 0 : 1);
  if (const auto left = standing.seconds_left(time))
    add("ringside_seconds_left", "gauge", "Estimated time until all runs are done.", *left);
  add("ringside_last_update_timestamp_seconds", "gauge",
      "When these figures were written, in seconds since 1970.", time);
  for (const CaseMetric& metric : case_metrics) {
    std::string samples;
    for (const CaseStanding& of : standing.cases())
      if (const auto value = metric.value(of))
        samples += sample(metric.name, labels_of(of, experiment), *value);
    if (!samples.empty()) out += head(metric.name, "gauge", metric.help) + samples;
  }
  return out;
}

void MetricsFile::hear(const runner::ProgressEvent& event) {
  standing_.hear(event);
  const bool is_step = std::holds_alternative<runner::StepDone>(event.what);
  const auto* ended = std::get_if<runner::RunEnded>(&event.what);
  const bool in_between =
      is_step || std::holds_alternative<runner::RunPredicted>(event.what) || (ended && ended->kept);
  // The time of day may be set back.
  if (in_between && std::abs(event.time - written_) < interval_s) return;
  written_ = event.time;
  try {
    const std::string text = metrics_text(standing_, event.time);
    WholeFile file(folder_, name_);
    file.write(std::as_bytes(std::span(text)), 0);
    file.publish_unsynced();
  } catch (const Error&) {
    if (!is_step) throw;
  }
}

}  // namespace ringside::tools::watch
