#include "experiments/tools/advise/advice_text.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <tuple>

#include "core/base/counted.h"
#include "core/device/ledger.h"
#include "core/plan/pipeline_plan.h"
#include "experiments/runner/registry/registry.h"
#include "experiments/runner/report/assumed.h"
#include "experiments/runner/report/interval.h"
#include "experiments/runner/report/text_table.h"

namespace ringside::tools::advise {
namespace {

std::string of_gb(double value) {
  return value < 1 ? fmt::format("{:.3f}", value) : fmt::format("{:.1f}", value);
}

runner::TableLine head(const Question& question) {
  runner::TableLine line = {"#",       "case",    "world",     "samples/s", "step ms",
                            "compute", "exposed", "optimizer", "GB",        "left"};
  if (question.price > 0) line.push_back("price of 1M samples");
  if (question.samples > 0) line.push_back("hours");
  line.push_back("efficiency");
  return line;
}

runner::TableLine line_of(const Question& question, const Considered& one,
                          const std::string& rank) {
  runner::TableLine line = {rank,
                            label_of(one.candidate),
                            std::to_string(one.candidate.world),
                            runner::per_second(one.samples_per_s),
                            runner::milliseconds(one.step_ms),
                            runner::milliseconds(one.compute_ms),
                            runner::milliseconds(one.exposed_ms),
                            runner::milliseconds(one.optimizer_ms),
                            of_gb(one.needs_gb),
                            of_gb(question.memory_gb() - one.needs_gb)};
  if (question.price > 0)
    line.push_back(fmt::format("{:.2f}", question.price * device_hours_per_million(one)));
  if (question.samples > 0) line.push_back(fmt::format("{:.1f}", hours(question, one)));
  line.push_back(one.efficiency < 0 ? "-" : fmt::format("{:.0f}%", 100 * one.efficiency));
  return line;
}

std::string interval_text(const Advice& advice, std::size_t shown) {
  if (!advice.bounds)
    return "The cluster file does not say how far off its steps may be, so there is no interval.\n";
  std::string out = fmt::format(
      "Its step lies between {} and {} ms as far as the errors that the cluster file states "
      "allow.",
      runner::milliseconds(advice.bounds->low_ms), runner::milliseconds(advice.bounds->high_ms));
  const bool equals = std::any_of(advice.ranked.begin() + 1,
                                  advice.ranked.begin() + static_cast<std::ptrdiff_t>(shown),
                                  [&](const Considered& one) { return is_equal(advice, one); });
  if (equals)
    out +=
        " Those marked = have intervals that overlap with that one, and count as equal: the "
        "prediction cannot tell which is faster.";
  return out + "\n";
}

/// "a device has 80.0 GB, of which 1.5 GB stay free"
std::string memory_of_device(const Question& question) {
  return fmt::format("a device has {}, of which {} stay free",
                     memory_text(1e9 * question.memory_gb()),
                     memory_text(1e9 * question.reserve_gb));
}

std::string nothing_fits(const Question& question, const Advice& advice) {
  const Considered* least = nullptr;
  const bool in_time =
      std::none_of(advice.others.begin(), advice.others.end(),
                   [](const Considered& one) { return one.outcome == Outcome::not_tried; });
  if (!in_time)
    return fmt::format("Nothing was simulated within {:.0f} s; raise --seconds.\n",
                       question.seconds);
  for (const Considered& one : advice.others)
    if (one.outcome == Outcome::no_memory && (!least || one.needs_gb < least->needs_gb))
      least = &one;
  if (!least)
    return fmt::format("Nothing could be simulated: {}.\n",
                       advice.others.empty() ? "there is no candidate" : advice.others.front().why);
  return fmt::format(
      "NOTHING FITS. The smallest candidate is '{}' at world {}: {}; {}; use more devices, a "
      "smaller model or shorter samples.\n",
      label_of(least->candidate), least->candidate.world, least->why, memory_of_device(question));
}

std::string_view word_of(Outcome outcome) {
  switch (outcome) {
    case Outcome::simulated:
      return "simulated";
    case Outcome::no_memory:
      return "does not fit";
    case Outcome::cannot_win:
      return "cannot win";
    case Outcome::needless:
      return "needless";
    case Outcome::failed:
      return "cannot be run";
    case Outcome::not_tried:
      return "not tried";
  }
  return {};
}

/// Candidates that are not advised for the same kind of reason are one line for each family and
/// precision, with the reason of the best of them.
std::string explanation(const Advice& advice) {
  struct Group {
    const Considered* best = nullptr;
    int count = 0;
  };
  std::vector<std::pair<std::string, Group>> groups;
  for (const Considered& one : advice.others) {
    const Candidate& candidate = one.candidate;
    const std::string key = fmt::format("{} {} {} {}", candidate.simplicity, candidate.world,
                                        candidate.precision, word_of(one.outcome));
    auto found = std::find_if(groups.begin(), groups.end(),
                              [&](const auto& group) { return group.first == key; });
    if (found == groups.end()) found = groups.insert(groups.end(), {key, {}});
    Group& group = found->second;
    const auto badness = [](const Considered& it) { return std::pair(it.bound_ms, it.needs_gb); };
    if (!group.best || badness(one) < badness(*group.best)) group.best = &one;
    ++group.count;
  }
  std::stable_sort(groups.begin(), groups.end(), [](const auto& a, const auto& b) {
    return a.second.best->candidate.simplicity < b.second.best->candidate.simplicity;
  });
  std::vector<runner::TableLine> lines = {{"case", "world", "and like it", "outcome", "why"}};
  for (const auto& [key, group] : groups)
    lines.push_back({label_of(group.best->candidate), std::to_string(group.best->candidate.world),
                     group.count == 1 ? "-" : std::to_string(group.count - 1),
                     std::string(word_of(group.best->outcome)), group.best->why});
  return "\n" + runner::text_table(lines);
}

/// Of candidates without a pipeline, the one that needs least memory at a world that divides the
/// batch; null if any of them was not found too large.
const Considered* least_whole(const Question& question, const Advice& advice) {
  const auto is_whole = [](const Considered& one) {
    return one.candidate.family.stages.ranks == 1;
  };
  if (std::ranges::any_of(advice.ranked, is_whole)) return nullptr;
  // Of equal ones that which offloads and recomputes most.
  const auto order = [](const Considered& one) {
    return std::tuple(one.needs_gb, -static_cast<int>(one.candidate.offload),
                      -static_cast<int>(one.candidate.recompute));
  };
  const Considered* least = nullptr;
  for (const Considered& one : advice.others) {
    if (!is_whole(one) || question.training.train.global_batch % one.candidate.world != 0) continue;
    if (one.outcome != Outcome::no_memory) return nullptr;
    if (!least || order(one) < order(*least)) least = &one;
  }
  return least;
}

/// Why only meshes fit: what is said of the smallest way of training that leaves the model whole.
std::string only_meshes_fit(const Question& question, const Advice& advice) {
  const Considered* least = least_whole(question, advice);
  if (!least) return {};
  std::vector<std::int64_t> too_many;
  for (const std::int64_t world : question.worlds)
    if (question.training.train.global_batch % world != 0) too_many.push_back(world);
  std::string out = fmt::format(
      "Only meshes fit. Of all ways that leave the model whole, with recomputation and offload "
      "too, the smallest is '{}' at world {}: {}; {}",
      label_of(least->candidate), least->candidate.world, least->why, memory_of_device(question));
  if (!too_many.empty()) {
    const std::string last = std::to_string(too_many.back());
    too_many.pop_back();
    out += fmt::format("; without a pipeline {} samples do not divide among {}{}{} workers",
                       question.training.train.global_batch, fmt::join(too_many, ", "),
                       too_many.empty() ? "" : " or ", last);
  }
  return out + ".\n";
}

}  // namespace

/// Steps of one cluster are off by the same errors, so each has the interval of the advised one, in
/// proportion.
bool is_equal(const Advice& advice, const Considered& one) {
  if (!advice.bounds) return false;
  const runner::Interval own{advice.bounds->low_ms, advice.bounds->high_ms};
  const double ratio = advice.ranked.front().samples_per_s / one.samples_per_s;
  return own.overlaps({ratio * own.low, ratio * own.high});
}

std::string question_text(const Question& question) {
  const sim::ClusterSpec& cluster = question.cluster();
  std::string parameters = std::to_string(question.parameters);
  for (auto at = static_cast<std::ptrdiff_t>(parameters.size()) - 3; at > 0; at -= 3)
    parameters.insert(static_cast<std::size_t>(at), ",");
  std::string devices = counted(cluster.machines * question.ranks_of_machine(), "core");
  if (!question.on_cpus())
    devices = fmt::format("{} {} of {:.1f} GB, of which {:.1f} GB stay free",
                          counted(cluster.machines * cluster.devices, "device"),
                          cluster.device.name, question.memory_gb(), question.reserve_gb);
  return fmt::format("{}: {} parameters, {} samples a step with {}, on {}: {}\n",
                     question.training.name, parameters, question.training.train.global_batch,
                     question.training.optimizer.kind, cluster.name, devices);
}

std::string advice_text(const Question& question, const Advice& advice, std::size_t most,
                        bool explain) {
  std::string out;
  if (advice.ranked.empty()) {
    out += nothing_fits(question, advice);
  } else {
    const std::size_t shown = std::min(most, advice.ranked.size());
    std::vector<runner::TableLine> lines = {head(question)};
    for (std::size_t i = 0; i < shown; ++i) {
      const Considered& one = advice.ranked[i];
      const std::string mark = i > 0 && is_equal(advice, one) ? " =" : "";
      lines.push_back(line_of(question, one, std::to_string(i + 1) + mark));
    }
    out += runner::text_table(lines) + "\n";
    const Considered& best = advice.ranked.front();
    out += fmt::format("Advised: {}, at world {}: {}.\n", label_of(best.candidate),
                       best.candidate.world, reason_of(question, advice));
    out += only_meshes_fit(question, advice);
    if (const std::string remark = recomputation_remark(plan_of(question, best.candidate));
        !remark.empty())
      out += remark + ".\n";
    if (question.deadline_h > 0 && hours(question, best) > question.deadline_h)
      out += fmt::format("NOTHING MEETS THE DEADLINE of {} hours: this takes {:.1f}.\n",
                         question.deadline_h, hours(question, best));
    out += interval_text(advice, shown);
    out += fmt::format(
        "Of those within {:.0f}% of the fastest the simplest is advised; all others stand in the "
        "order of their speed.\n",
        100 * as_fast(question));
  }
  const auto late = std::count_if(advice.others.begin(), advice.others.end(), [](const auto& one) {
    return one.outcome == Outcome::not_tried;
  });
  if (late > 0 && !advice.ranked.empty())
    out += fmt::format("{} candidate{} not simulated within {:.0f} s: --seconds gives more time.\n",
                       late, late == 1 ? " was" : "s were", question.seconds);
  if (find_model(question.training.model.kind).batch_norms)
    out +=
        "Batch norms take their statistics of a micro-batch, so its size is part of the "
        "training.\n";
  if (question.machine)
    out += fmt::format(
        "Ranks have {} thread{}, as calibrated: one process with the threads of all "
        "cores is not among the candidates.\n",
        question.training.device.threads, question.training.device.threads == 1 ? "" : "s");
  if (explain) out += explanation(advice);
  if (const std::string text =
          runner::assumed_text({{question.cluster().name, question.cluster().assumed}});
      !text.empty())
    out += "\n" + text;
  return out;
}

}  // namespace ringside::tools::advise
