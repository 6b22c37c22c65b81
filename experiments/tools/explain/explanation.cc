#include "experiments/tools/explain/explanation.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/base/error.h"
#include "core/base/json_fields.h"
#include "core/base/nearest.h"
#include "core/plan/same_run.h"
#include "experiments/tools/explain/cause.h"

namespace ringside::tools::explain {
namespace {

/// Whether both compute the same samples with the same model on the same devices. (Orders of sums
/// and learning rates do not change what takes time.)
bool same_work(const RunPlan& a, const RunPlan& b) {
  return a.model == b.model && a.data == b.data && a.train.precision == b.train.precision &&
         a.train.recompute == b.train.recompute && a.optimizer.kind == b.optimizer.kind &&
         a.device.kind == b.device.kind && a.device.threads == b.device.threads &&
         a.device.slow == b.device.slow && a.cluster == b.cluster;
}

/// The case that trains what `one` does at this world, the reference scheme or, if `reference` is
/// false, workers that do not communicate; null if it was not compared.
const Evidence* find_alone(const std::vector<Evidence>& all, const Evidence& one, bool reference,
                           int world) {
  for (const Evidence& other : all)
    if (topology_of(other.plan()) == SchemeTopology::none &&
        (other.plan().scheme == reference_scheme) == reference && other.plan().world == world &&
        other.summary.plan.purpose == Purpose::asked && same_work(other.plan(), one.plan()))
      return &other;
  return nullptr;
}

std::vector<Remedy> remedies_of(const Explanation& explanation, Detail detail) {
  std::vector<Remedy> out;
  for (std::size_t i = 0; i < explanation.causes.size(); ++i)
    if (i == 0 || detail == Detail::full)
      for (const Remedy& remedy : explanation.causes[i].finding.remedies) out.push_back(remedy);
  return out;
}

}  // namespace

Explanation explanation_of(const Evidence& one, const std::vector<Evidence>& all,
                           const WhatIfSetup& ground, Detail detail) {
  Explanation out{.evidence = one, .bounds = bounds_of(one, all)};
  for (Finding& finding : findings_of(one)) out.causes.push_back({.finding = std::move(finding)});
  const std::vector<WhatIf> trials = what_ifs_of(one.plan(), remedies_of(out, detail), ground);
  auto next = trials.begin();
  for (Explained& cause : out.causes) {
    const auto count = static_cast<std::ptrdiff_t>(std::min<std::size_t>(
        cause.finding.remedies.size(), static_cast<std::size_t>(trials.end() - next)));
    cause.trials.assign(next, next + count);
    next += count;
    std::stable_sort(cause.trials.begin(), cause.trials.end(),
                     [](const WhatIf& a, const WhatIf& b) { return a.gain() > b.gain(); });
  }
  return out;
}

std::vector<const Evidence*> cases_called(const std::vector<Evidence>& all,
                                          const std::string& label, int world) {
  std::vector<const Evidence*> out;
  std::vector<std::string> there, labels;
  for (const Evidence& one : all) {
    there.push_back(fmt::format("'{}' at world {}", one.summary.label(), one.summary.plan.world));
    labels.push_back(one.summary.label());
    if ((label.empty() || one.summary.label() == label) &&
        (world == 0 || one.summary.plan.world == world))
      out.push_back(&one);
  }
  if (!out.empty()) return out;
  if (all.empty()) throw Error("no case of these results has a run that finished");
  const bool known = std::find(labels.begin(), labels.end(), label) != labels.end();
  throw Error(
      "there is no case {}{}{}; there are {}", label.empty() ? "" : fmt::format("'{}'", label),
      world == 0 ? "" : fmt::format("{}at world {}", label.empty() ? "" : " ", world),
      label.empty() || known ? "" : fmt::format(" (did you mean '{}'?)", nearest(label, labels)),
      fmt::join(there, ", "));
}

Fields fields_of(StepParts& parts) {
  return {{"step", &parts.step},
          {"compute", &parts.compute},
          {"exposed", &parts.exposed},
          {"communication", &parts.communication},
          {"optimizer", &parts.optimizer},
          {"serving_optimizer", &parts.serving_optimizer},
          {"data", &parts.data},
          {"encoding", &parts.encoding},
          {"idle", &parts.idle}};
}

Fields fields_of(PathPart& part) {
  return {
      {"rank", &part.rank}, {"activity", &part.activity}, {"name", &part.name}, {"ms", &part.ms}};
}

Fields fields_of(Remedy& remedy) {
  return {{"words", &remedy.words},   {"set", Structs(&remedy.settings)},
          {"scheme", &remedy.scheme}, {"world", &remedy.world},
          {"caveat", &remedy.caveat}, {"not_simulated", &remedy.not_simulated}};
}

Fields fields_of(WhatIf& trial) {
  return {{"remedy", fields_of(trial.remedy)},
          {"why_not", &trial.why_not},
          {"before_ms", &trial.before_ms},
          {"after_ms", &trial.after_ms},
          {"before_samples_per_s", &trial.before_rate},
          {"after_samples_per_s", &trial.after_rate},
          {"other_batch", &trial.other_batch}};
}

Fields fields_of(Finding& finding) {
  return {{"cause", &finding.cause}, {"ms", &finding.ms}, {"sentence", &finding.sentence}};
}

Fields fields_of(Bounds& bounds) {
  return {{"sent_bytes", &bounds.sent_bytes}, {"least_bytes", &bounds.least_bytes},
          {"link_ms", &bounds.link_ms},       {"link_gbs", &bounds.link_gbs},
          {"compute_ms", &bounds.compute_ms}, {"compute_of", &bounds.compute_of}};
}

nlohmann::ordered_json explanation_json(const Explanation& explanation) {
  const Evidence& e = explanation.evidence;
  nlohmann::ordered_json causes = nlohmann::ordered_json::array(),
                         path = nlohmann::ordered_json::array();
  for (const Explained& one : explanation.causes) {
    nlohmann::ordered_json cause = to_json(one.finding);
    cause["trials"] = nlohmann::ordered_json::array();
    for (const WhatIf& trial : one.trials) cause["trials"].push_back(to_json(trial));
    causes.push_back(std::move(cause));
  }
  for (const PathPart& part : added_up(e.path)) path.push_back(to_json(part));
  return {{"label", e.summary.label()},
          {"world", e.summary.plan.world},
          {"run", e.plan().id},
          {"simulated", e.summary.simulated()},
          {"ms", to_json(e.ms)},
          {"critical_path", path},
          {"no_trace", e.no_trace},
          {"bounds", to_json(explanation.bounds)},
          {"causes", causes}};
}

Bounds bounds_of(const Evidence& e, const std::vector<Evidence>& all) {
  const RunPlan& plan = e.plan();
  Bounds out{.sent_bytes = e.summary.bytes.sent, .least_bytes = e.summary.bytes.minimum};
  if (const auto gbs = link_gbs(plan); gbs && out.least_bytes > 0) {
    out.link_gbs = *gbs;
    out.link_ms = out.least_bytes / *gbs / 1e6;
  }
  if (const Evidence* lone = find_alone(all, e, false, plan.world);
      lone && lone->plan().train.global_batch == plan.train.global_batch && lone != &e) {
    out.compute_ms = lone->ms.step;
    out.compute_of = fmt::format("'{}', whose workers do not communicate", lone->plan().scheme);
  } else if (const Evidence* single = find_alone(all, e, true, 1); single && plan.world > 1) {
    const double samples = static_cast<double>(plan.train.global_batch) /
                           static_cast<double>(single->plan().train.global_batch);
    out.compute_ms = single->ms.step * samples / plan.world;
    out.compute_of = fmt::format("'{}', divided by the world", reference_scheme);
  } else if (!e.ranks.empty()) {
    const auto fastest = std::min_element(
        e.ranks.begin(), e.ranks.end(),
        [](const RankTime& a, const RankTime& b) { return a.compute_ms < b.compute_ms; });
    out.compute_ms = e.scaled(fastest->compute_ms);
    out.compute_of = "the compute of its fastest rank";
  } else {
    out.compute_ms = e.ms.compute;
    out.compute_of = "its own compute";
  }
  return out;
}

}  // namespace ringside::tools::explain
