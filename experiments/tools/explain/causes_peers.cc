// Causes that lie in the collectives among peers: buckets of gradients, gathered parameters, bytes.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "experiments/runner/report/text_table.h"
#include "experiments/tools/explain/cause.h"

namespace ringside::tools::explain {
namespace {

bool reduces(const std::string& name) {
  return name.starts_with("all-reduce") || name.starts_with("reduce-scatter");
}

/// The number of reductions of a step's gradients; 0 if it is not known. Without a trace it is
/// known only for schemes with an option that decides it, and which communicate nothing else.
std::size_t reductions(const Evidence& e) {
  if (e.plan().world < 2) return 0;
  if (e.traced()) {
    std::set<std::string> names;
    for (const TraceSlice& slice : e.trace.workers.front().communication)
      if (reduces(slice.name)) names.insert(slice.name);
    return names.size();
  }
  const auto bucket_mb = number_of(e.plan(), "bucket_mb");
  const auto division = division_of(e.plan());
  if (!division || division->optimizer() > 1 || !bucket_mb || *bucket_mb <= 0) return 0;
  return static_cast<std::size_t>(std::ceil(gradient_mb(e) / *bucket_mb));
}

/// Exposed time of reductions once all ranks are there.
double exposed_reductions_ms(const Evidence& e) {
  return e.traced() ? e.transfer_ms(WaitFor::reduction) : e.ms.exposed - e.for_stages_ms();
}

Remedy bucket_remedy(const Evidence& e, const std::string& words, double mb) {
  return {.words = words, .settings = {{key_of(e.plan(), "bucket_mb"), fmt::format("{:.2g}", mb)}}};
}

/// Whether the scheme gathers whole units for a while by collectives: the third stage of ZeRO.
bool gathers_units(const RunPlan& plan) {
  const auto division = division_of(plan);
  return division && division->parameters() > 1 && option_of(plan, "shard") != "on_demand";
}

/// The gathers in a trace: their exposed time without waits for the last rank, and their duration.
struct Gathers {
  double exposed_ms = 0, taken_ms = 0;  // in a step, of an average worker
  std::string worst{};                  // the one with the longest wait
  double worst_ms = 0, worst_taken_ms = 0, worst_ahead_ms = 0;
};

Gathers gathers_of(const Evidence& e) {
  Gathers out{.exposed_ms = e.transfer_ms(WaitFor::gather)};
  for (const Wait& wait : e.waits) {
    if (wait.kind != WaitFor::gather || !wait.begun_ms) continue;
    const double all_there =
        wait.last ? std::max(wait.last->at_ms, *wait.begun_ms) : *wait.begun_ms;
    const double taken = wait.end_ms - all_there;
    out.taken_ms += taken / static_cast<double>(e.trace.steps());
    if (wait.transfer_ms() <= out.worst_ms) continue;
    out.worst = wait.what;
    out.worst_ms = wait.transfer_ms();
    out.worst_taken_ms = taken;
    out.worst_ahead_ms = std::max(0.0, wait.begin_ms - all_there);
  }
  return out;
}

/// The time for which an average worker waits for the last reduction of a step, if that began when
/// backward was over, so that nothing could hide it.
double last_reduction_ms(const Evidence& e) {
  const double traced =
      mean_of_steps(e.trace, [&](const TracedWorker& worker, const TracedStep& step) {
        double backward_end = 0;
        for (const TraceSlice& slice : step.main)
          if (slice.name.starts_with("backward ")) backward_end = slice.end_ms;
        const Wait* last = nullptr;
        for (const Wait& wait : e.waits)
          if (wait.rank == worker.rank && wait.kind == WaitFor::reduction &&
              within(wait.begin_ms, wait.end_ms, step))
            last = &wait;
        return last && last->begun_ms && *last->begun_ms >= backward_end ? last->transfer_ms()
                                                                         : 0.0;
      });
  return e.scaled(traced);
}

}  // namespace

std::optional<Finding> one_bucket(const Evidence& e, const std::vector<Finding>&) {
  if (!number_of(e.plan(), "bucket_mb") || reductions(e) != 1 ||
      option_of(e.plan(), "overlap") == "false")
    return {};
  const double exposed = exposed_reductions_ms(e), all_mb = gradient_mb(e);
  // Smaller buckets can hide at most the time of backward.
  return Finding{
      .ms = std::min(exposed, e.backward_ms()),
      .sentence = fmt::format(
          "All gradients ({} MB) are one bucket, so nothing is reduced before backward ends: {} ms "
          "of communication come after {} ms of backward instead of overlapping it.",
          short_number(all_mb), runner::milliseconds(exposed),
          runner::milliseconds(e.backward_ms())),
      .remedies = {bucket_remedy(e, "four buckets", all_mb / 4),
                   bucket_remedy(e, "sixteen buckets", all_mb / 16)}};
}

std::optional<Finding> no_overlap(const Evidence& e, const std::vector<Finding>&) {
  if (option_of(e.plan(), "overlap") != "false" || e.plan().world < 2) return {};
  const double exposed = exposed_reductions_ms(e);
  return Finding{.ms = std::min(exposed, e.backward_ms()),
                 .sentence = fmt::format(
                     "overlap = false: no bucket is reduced before backward ends, so {} ms of "
                     "communication come after {} ms of backward instead of overlapping it.",
                     runner::milliseconds(exposed), runner::milliseconds(e.backward_ms())),
                 .remedies = {{.words = "reducing buckets while backward goes on",
                               .settings = {{key_of(e.plan(), "overlap"), "true"}}}}};
}

std::optional<Finding> last_bucket(const Evidence& e, const std::vector<Finding>&) {
  const auto bucket_mb = number_of(e.plan(), "bucket_mb");
  if (!bucket_mb || !e.traced() || reductions(e) < 2 || option_of(e.plan(), "overlap") == "false")
    return {};
  const double last = last_reduction_ms(e);
  Finding out{.ms = last,
              .sentence = fmt::format(
                  "The last of {} reductions begins when backward is over, so nothing hides it: "
                  "workers wait {} ms for it alone.",
                  reductions(e), runner::milliseconds(last))};
  if (*bucket_mb > 0)
    out.remedies.push_back(bucket_remedy(e, "a quarter of the bucket", *bucket_mb / 4));
  return out;
}

std::optional<Finding> prefetch_off(const Evidence& e, const std::vector<Finding>&) {
  const auto prefetch = number_of(e.plan(), "prefetch");
  if (!prefetch || *prefetch > 0 || !e.traced() || !gathers_units(e.plan())) return {};
  const Gathers gathers = gathers_of(e);
  const std::string key = key_of(e.plan(), "prefetch");
  return Finding{.ms = std::min(gathers.exposed_ms, e.ms.compute),
                 .sentence = fmt::format(
                     "prefetch = 0: a unit is gathered when it is needed and not before, "
                     "so {} ms of gathering "
                     "are exposed, and {} ms of compute hide none of it.",
                     runner::milliseconds(gathers.exposed_ms), runner::milliseconds(e.ms.compute)),
                 .remedies = {{.words = "gathering one unit ahead", .settings = {{key, "1"}}},
                              {.words = "gathering two units ahead", .settings = {{key, "2"}}}}};
}

std::optional<Finding> prefetch_late(const Evidence& e, const std::vector<Finding>&) {
  const auto prefetch = number_of(e.plan(), "prefetch");
  if (!prefetch || *prefetch < 1 || !e.traced() || !gathers_units(e.plan())) return {};
  const Gathers gathers = gathers_of(e);
  // If gathering takes longer than all compute, no prefetch hides it.
  if (gathers.worst.empty() || e.scaled(gathers.taken_ms) > e.ms.compute) return {};
  return Finding{
      .ms = gathers.exposed_ms,
      .sentence = fmt::format(
          "Units are gathered too late: workers wait {} ms of a step for gathers that were begun "
          "{:g} unit{} ahead. '{}' takes {} ms, but began only {} ms before it was needed.",
          runner::milliseconds(gathers.exposed_ms), *prefetch, *prefetch == 1 ? "" : "s",
          gathers.worst, runner::milliseconds(gathers.worst_taken_ms),
          runner::milliseconds(gathers.worst_ahead_ms)),
      .remedies = {
          {.words = "gathering one unit further ahead",
           .settings = {{key_of(e.plan(), "prefetch"), fmt::format("{:g}", *prefetch + 1)}},
           .caveat = "which holds one more unit in memory"}}};
}

std::optional<Finding> reduced_too_often(const Evidence& e, const std::vector<Finding>&) {
  const TrainConfig& train = e.plan().train;
  if (train.reduce != Reduce::every || train.accumulation < 2 || e.plan().world < 2) return {};
  const double exposed = e.traced() ? e.transfer_ms(WaitFor::reduction) : 0;
  const auto division = division_of(e.plan());
  const bool keeps_whole = division && division->gradients() == 1;
  const auto times = static_cast<double>(train.accumulation);
  return Finding{
      .ms = exposed * (1 - 1 / times),
      .sentence = fmt::format("Gradients are reduced after every one of {} micro-batches, though "
                              "once a step would do: workers wait {} ms for these reductions.",
                              train.accumulation, runner::milliseconds(exposed)),
      .remedies = {{.words = "reducing after the last micro-batch alone",
                    .settings = {{"train.reduce", "last"}},
                    .caveat = keeps_whole ? "" : "which holds whole gradients"}}};
}

std::optional<Finding> more_bytes(const Evidence& e, const std::vector<Finding>&) {
  // Padding and the headers of messages add a few percent.
  constexpr double many = 1.25;
  const double sent = e.summary.bytes.sent, least = e.summary.bytes.minimum;
  if (least <= 0 || sent < many * least) return {};
  Finding out{.ms = (e.ms.exposed - e.bubble_ms() - e.for_last_rank_ms()) * (1 - least / sent),
              .sentence = fmt::format(
                  "The busiest rank sends {} MB a step, {:.2f} times the {} MB that the scheme "
                  "needs at least.",
                  runner::megabytes(sent), sent / least, runner::megabytes(least))};
  const auto algorithm = option_of(e.plan(), "algorithm");
  if (algorithm && *algorithm != "native")
    out.remedies.push_back({.words = "the library's own algorithm",
                            .settings = {{key_of(e.plan(), "algorithm"), "native"}}});
  return out;
}

}  // namespace ringside::tools::explain
