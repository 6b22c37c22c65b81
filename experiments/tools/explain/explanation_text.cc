// An explanation in plain sentences.
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "experiments/runner/report/text_table.h"
#include "experiments/tools/explain/explanation.h"

namespace ringside::tools::explain {
namespace {

/// A gain in speed below this share counts as none, because predictions are less accurate.
constexpr double little = 0.01;
/// A mean step of this many times the median shows that some steps are much longer than others.
constexpr double uneven = 1.25;

std::string share_text(double part, double whole) {
  return whole > 0 ? fmt::format("{:.0f}%", 100 * part / whole) : "-";
}

std::string head(const Evidence& e) {
  std::string out = fmt::format("{}, world {}", e.summary.label(), e.summary.plan.world);
  if (e.summary.simulated()) out += fmt::format(", SIMULATED on {}", e.summary.plan.cluster->name);
  return out;
}

std::string step_text(const Evidence& e) {
  const StepParts& ms = e.ms;
  const std::pair<const char*, double> parts[] = {
      {"compute", ms.compute},     {"exposed communication", ms.exposed},
      {"optimizer", ms.optimizer}, {"data", ms.data},
      {"encoding", ms.encoding},   {"idle", ms.idle}};
  const double sum = ms.mean();
  std::vector<std::string> words;
  for (const auto& [name, value] : parts)
    if (value >= 0.005 * sum || name == std::string_view("compute"))
      words.push_back(
          fmt::format("{} {} ms ({})", name, runner::milliseconds(value), share_text(value, sum)));
  return fmt::format(
      "A step takes {} ms{}. Of an average worker's step: {}.", runner::milliseconds(ms.step),
      sum > uneven * ms.step
          ? fmt::format(" in the median and {} ms in the mean", runner::milliseconds(sum))
          : "",
      fmt::join(words, ", "));
}

std::string hidden_text(const Evidence& e) {
  if (e.summary.plan.world < 2 || e.ms.communication <= 0) return {};
  std::string out = fmt::format(
      "Communication goes on for {} ms of a step: {} ms are hidden behind other work, "
      "and workers wait {} ms.",
      runner::milliseconds(e.ms.communication), runner::milliseconds(e.summary.time_ms.hidden),
      runner::milliseconds(e.ms.exposed));
  if (const double late = e.for_last_rank_ms(); late > 0.01 * e.ms.mean())
    out += fmt::format(" Of these waits {} ms pass until the last rank has come.",
                       runner::milliseconds(late));
  return out + "\n";
}

std::string path_text(const Evidence& e) {
  if (e.path.empty())
    return fmt::format(
        "There is no critical path to show, and causes that only a trace shows were not looked "
        "for: {}.\n",
        e.no_trace);
  double all = 0;
  for (const PathPart& part : e.path) all += part.ms;
  std::vector<std::string> words;
  for (const PathPart& part : added_up(e.path)) {
    if (part.ms < 0.02 * all) continue;
    const bool moves = part.activity == name_of(Activity::communication);
    words.push_back(moves ? fmt::format("{} {} ms", part.name, runner::milliseconds(part.ms))
                          : fmt::format("{} on rank {} {} ms", part.activity, part.rank,
                                        runner::milliseconds(part.ms)));
  }
  return fmt::format("The critical path of a traced step of {} ms: {}.\n",
                     runner::milliseconds(all), fmt::join(words, ", "));
}

std::string settings_text(const Remedy& remedy) {
  std::vector<std::string> words;
  if (!remedy.scheme.empty()) words.push_back("scheme " + remedy.scheme);
  if (remedy.world != 0) words.push_back(fmt::format("world {}", remedy.world));
  for (const Setting& one : remedy.settings)
    words.push_back(fmt::format("{} = {}", one.key, one.value));
  if (words.empty()) return {};
  return fmt::format(" ({})", fmt::join(words, ", "));
}

std::string trial_text(const WhatIf& trial, const WhatIfSetup& ground) {
  const Remedy& remedy = trial.remedy;
  std::string out = "Try " + remedy.words + settings_text(remedy);
  if (!remedy.caveat.empty()) out += ", " + remedy.caveat;
  if (!trial.why_not.empty())
    return trial.why_not == ground.no_machine
               ? out + "."
               : fmt::format("{}. Not simulated: {}.", out, trial.why_not);
  if (trial.gain() == 0) return out + ".";
  const std::string change =
      trial.other_batch ? fmt::format("{} -> {} samples/s", runner::per_second(trial.before_rate),
                                      runner::per_second(trial.after_rate))
                        : fmt::format("{} -> {} ms a step", runner::milliseconds(trial.before_ms),
                                      runner::milliseconds(trial.after_ms));
  const double gain = trial.gain() - 1;
  if (std::abs(gain) < little)
    return fmt::format("{}: the simulator expects no gain, {}.", out, change);
  return fmt::format("{}: the simulator expects {}, {:.2f} times as fast.", out, change,
                     trial.gain());
}

std::string bounds_text(const Explanation& explanation) {
  const Bounds& bounds = explanation.bounds;
  std::string out;
  if (bounds.least_bytes > 0) {
    const double times = bounds.sent_bytes / bounds.least_bytes;
    out += fmt::format(
        "Bytes: the busiest rank sends {} MB a step, {}.", runner::megabytes(bounds.sent_bytes),
        times < 1.005 ? "the least that its scheme needs"
                      : fmt::format("{:.2f} times the least that its scheme needs", times));
    if (bounds.link_ms)
      out += fmt::format(" The least takes {} ms over a link of {} GB/s.",
                         runner::milliseconds(*bounds.link_ms), short_number(bounds.link_gbs));
    out += "\n";
  }
  if (bounds.compute_ms > 0)
    out += fmt::format("Compute bound: {} ms a step ({}); this case takes {:.2f} times as long.\n",
                       runner::milliseconds(bounds.compute_ms), bounds.compute_of,
                       explanation.evidence.ms.step / bounds.compute_ms);
  const runner::Utilization& utilization = explanation.evidence.summary.utilization;
  if (utilization.mfu) out += fmt::format("Utilization: {}.\n", utilization.formula);
  return out;
}

std::string cause_text(const Evidence& e, const Explained& one, const WhatIfSetup& ground,
                       const std::string& number, Detail detail) {
  std::string name = one.finding.cause;
  name[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(name[0])));
  std::string out = fmt::format("{}{}, up to {} ms ({} of the step). {}\n", number, name,
                                runner::milliseconds(one.finding.ms),
                                share_text(one.finding.ms, e.ms.mean()), one.finding.sentence);
  for (const WhatIf& trial : one.trials) {
    out += "   " + trial_text(trial, ground) + "\n";
    if (detail == Detail::brief) break;
  }
  return out;
}

}  // namespace

std::string explanation_text(const Explanation& explanation, const WhatIfSetup& ground,
                             Detail detail) {
  const Evidence& e = explanation.evidence;
  std::string out = head(e) + "\n" + step_text(e) + "\n";
  const bool full = detail == Detail::full;
  if (full) out += hidden_text(e) + path_text(e);
  if (explanation.causes.empty())
    out += fmt::format(
        "Nothing stands out: no cause that is known accounts for {:.0f}% of the "
        "step.\n",
        100 * least_share);
  for (std::size_t i = 0; i < explanation.causes.size(); ++i) {
    const Explained& one = explanation.causes[i];
    if (full || i == 0)
      out += cause_text(e, one, ground, full ? fmt::format("{}. ", i + 1) : "", detail);
    else
      out += fmt::format("{} {}, up to {} ms", i == 1 ? "Also:" : ";", one.finding.cause,
                         runner::milliseconds(one.finding.ms));
  }
  if (!full && explanation.causes.size() > 1) out += ".\n";
  if (full) out += bounds_text(explanation);
  return out;
}

}  // namespace ringside::tools::explain
