// The reason for which a candidate is advised.
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <limits>

#include "experiments/tools/advise/advice_text.h"

namespace ringside::tools::advise {
namespace {

using Is = std::function<bool(const Candidate&)>;

constexpr std::string_view unfit = "does not fit";

/// Whether each replica of the candidate gets equally many samples of a step.
bool divides_batch(const Question& question, const Candidate& candidate) {
  return question.training.train.global_batch % candidate.replicas() == 0;
}

std::string slower(const Considered& one, const Advice& advice) {
  const double more = 100 * (advice.ranked.front().samples_per_s / one.samples_per_s - 1);
  const auto text = [](double percent) {
    return percent < 10 ? fmt::format("{:.1f}%", percent) : fmt::format("{:.0f}%", percent);
  };
  return (more < 0 ? text(-more) + " faster" : text(more) + " slower") +
         (is_equal(advice, one) ? " (not told apart)" : "");
}

/// The reason against all candidates of a kind: the fastest of them is slower, or none fits. Empty
/// if there is none of that kind that divides the batch.
std::string against(const Question& question, const Advice& advice, const Is& is) {
  const Considered& advised = advice.ranked.front();
  const Considered* best = nullptr;
  for (const Considered& one : advice.ranked)
    if (is(one.candidate) && (!best || one.samples_per_s > best->samples_per_s)) best = &one;
  if (best) return fmt::format("'{}' is {}", label_of(best->candidate), slower(*best, advice));
  double least_gb = std::numeric_limits<double>::max();
  bool all_too_large = true;
  const auto counts = [&](const Considered& one) {
    return is(one.candidate) && divides_batch(question, one.candidate);
  };
  // What cannot be run says nothing about the others of the kind.
  const bool any_runs = std::ranges::any_of(advice.others, [&](const Considered& one) {
    return counts(one) && one.outcome != Outcome::failed;
  });
  for (const Considered& one : advice.others) {
    if (!counts(one) || (any_runs && one.outcome == Outcome::failed)) continue;
    all_too_large &= one.outcome == Outcome::no_memory;
    least_gb = std::min(least_gb, one.needs_gb);
    if (!best || (one.outcome == Outcome::cannot_win &&
                  (best->outcome != Outcome::cannot_win || one.bound_ms < best->bound_ms)))
      best = &one;
  }
  if (!best) return {};
  if (all_too_large)
    return least_gb > question.memory_gb() ? fmt::format("{} ({:.1f} GB)", unfit, least_gb)
                                           : std::string(unfit);
  const std::string label = label_of(best->candidate);
  switch (best->outcome) {
    case Outcome::cannot_win:
      return fmt::format("'{}' is at least {:.0f}% slower", label,
                         100 * (best->bound_ms / advised.step_ms - 1));
    case Outcome::not_tried:
      return fmt::format("'{}' was not tried", label);
    case Outcome::needless:
      return fmt::format("'{}' is needless", label);
    default:
      return fmt::format("'{}' cannot be run", label);
  }
}

/// The families with which the advised one is compared: all simpler ones, and the next best of the
/// rest.
std::vector<std::string> families(const Question& question, const Advice& advice) {
  const Candidate& advised = advice.ranked.front().candidate;
  std::vector<std::string> parts;
  std::vector<std::string> named = {advised.family.label};
  const auto add = [&](const Candidate& candidate) {
    const std::string& label = candidate.family.label;
    if (candidate.world != advised.world ||
        std::find(named.begin(), named.end(), label) != named.end())
      return false;
    named.push_back(label);
    if (!divides_batch(question, candidate)) {
      if (candidate.family.stages.ranks > 1) return false;
      parts.push_back(fmt::format("without a pipeline {} samples do not divide among {} workers",
                                  question.training.train.global_batch, candidate.world));
      return true;
    }
    const std::string text = against(question, advice, [&](const Candidate& one) {
      return one.family.label == label && one.world == advised.world;
    });
    parts.push_back(text.starts_with('\'') ? text : label + " " + text);
    return true;
  };
  std::vector<const Candidate*> simpler_ones, others;
  for (const auto* list : {&advice.ranked, &advice.others})
    for (const Considered& one : *list)
      (one.candidate.simplicity < advised.simplicity && one.candidate.family.stages.ranks == 1
           ? simpler_ones
           : others)
          .push_back(&one.candidate);
  std::stable_sort(
      simpler_ones.begin(), simpler_ones.end(),
      [](const Candidate* a, const Candidate* b) { return a->simplicity < b->simplicity; });
  for (const Candidate* one : simpler_ones) add(*one);
  for (const Candidate* one : others)
    if (add(*one)) break;
  return parts;
}

}  // namespace

std::string reason_of(const Question& question, const Advice& advice) {
  const Considered& best = advice.ranked.front();
  const Candidate& advised = best.candidate;
  std::vector<std::string> reasons;
  const auto give = [&](const std::string& reason) {
    if (std::find(reasons.begin(), reasons.end(), reason) == reasons.end())
      reasons.push_back(reason);
  };
  for (const std::string& reason : families(question, advice)) give(reason);
  const auto same_world = [&](const Candidate& one) { return one.world == advised.world; };
  const auto add = [&](const std::string& what, const Is& is) {
    const std::string text =
        against(question, advice, [&](const Candidate& one) { return same_world(one) && is(one); });
    if (!text.empty()) give(text.starts_with('\'') ? text : what + " " + text);
  };
  if (!advised.tuned.empty())
    add("", [&](const Candidate& one) {
      Candidate plain = advised;
      plain.tuned.clear();
      return label_of(one) == label_of(plain);
    });
  for (const std::string& precision : question.precisions)
    if (precision != advised.precision)
      add(precision, [&](const Candidate& one) { return one.precision == precision; });
  if (advised.recompute != Recompute::none)
    add("without recomputation it", [&](const Candidate& one) {
      return one.family.label == advised.family.label && one.precision == advised.precision &&
             one.recompute == Recompute::none;
    });
  if (advised.offload != Offload::none)
    add("without offload it", [&](const Candidate& one) {
      return one.family.label == advised.family.label && one.precision == advised.precision &&
             one.offload == Offload::none;
    });
  for (const std::int64_t world : question.worlds)
    if (world != advised.world)
      if (const std::string text =
              against(question, advice, [&](const Candidate& one) { return one.world == world; });
          !text.empty())
        give(fmt::format("with {} worker{} {}", world, world == 1 ? "" : "s",
                         text.starts_with(unfit) ? "none fits" + text.substr(unfit.size()) : text));
  return fmt::format("{}", fmt::join(reasons, "; "));
}

}  // namespace ringside::tools::advise
