// Causes that lie in the machine and in the division of work over ranks.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/plan/device_traits.h"
#include "core/plan/mesh.h"
#include "core/plan/slices.h"
#include "experiments/runner/report/interval.h"
#include "experiments/runner/report/text_table.h"
#include "experiments/tools/explain/cause.h"

namespace ringside::tools::explain {
namespace {

/// Two ranks that do the same count as equally fast if their times differ by less. A trace has four
/// steps, and single steps of equal ranks differ by several percent on a quiet machine.
constexpr double slower = 1.1;
/// The cores count as busy if at least this share of their time was used: ranks that wait for each
/// other leave some of it.
constexpr double busy = 0.8;

/// The cores that the workers of a run share; 0 if each has a device of its own, or if that is not
/// known.
double shared_cores(const RunRecord& row) {
  const RunPlan& plan = row.plan;
  if (plan.cluster)
    return sim::shares_memory(*plan.cluster)
               ? static_cast<double>(plan.cluster->machines * plan.cluster->devices *
                                     plan.cluster->device.cores)
               : 0;
  return device_traits(plan.device.kind).on_processor && row.load ? row.load->cores : 0;
}

double threads_of_workers(const RunPlan& plan) {
  return static_cast<double>(plan.world * (plan.cluster ? 1 : plan.device.threads));
}

bool too_many_threads(const RunRecord& row) {
  const double cores = shared_cores(row);
  // Workers that are slowed for a trial (device.slow) leave cores idle. Core time of other
  // processes was not available.
  const double by_others =
      row.load && row.load->seconds > 0 ? row.load->others_s / row.load->seconds : 0;
  const bool all_busy = !row.cores || *row.cores + by_others >= busy * cores;
  return cores > 0 && threads_of_workers(row.plan) > cores && all_busy;
}

double samples_of_rank(const RunPlan& plan, int rank) {
  return static_cast<double>(samples_of(plan, plan.ranks[static_cast<std::size_t>(rank)].worker));
}

/// Workers of different stages do not do the same.
int stage_of(const RunPlan& plan, int rank) {
  return has_pipeline(plan) ? place_in_mesh(plan, rank).pipeline : 0;
}

/// The rank that computes longest, beside the median of the others with the same stage.
struct Slowest {
  int rank = -1;
  double ms = 0, others_ms = 0;                // of compute in a step, as the case's figures
  double sample_ms = 0, others_sample_ms = 0;  // of one sample
  double waited_ms = 0;  // time for which an average worker waits for this rank
};

std::optional<Slowest> slowest_of(const Evidence& e) {
  // If threads outnumber cores, the system's scheduler decides which rank is slow.
  if (e.ranks.size() < 2 || too_many_threads(*e.row)) return {};
  const auto longest = std::max_element(
      e.ranks.begin(), e.ranks.end(),
      [](const RankTime& a, const RankTime& b) { return a.compute_ms < b.compute_ms; });
  Slowest out{.rank = longest->rank};
  std::vector<double> others, others_sample;
  for (const RankTime& one : e.ranks) {
    if (stage_of(e.plan(), one.rank) != stage_of(e.plan(), out.rank)) continue;
    const double samples = std::max(1.0, samples_of_rank(e.plan(), one.rank));
    if (one.rank == out.rank) {
      out.ms = e.scaled(one.compute_ms);
      out.sample_ms = out.ms / samples;
    } else {
      others.push_back(e.scaled(one.compute_ms));
      others_sample.push_back(others.back() / samples);
    }
  }
  if (others.empty()) return {};
  out.others_ms = runner::median(others);
  out.others_sample_ms = runner::median(others_sample);
  out.waited_ms = e.of_exposed([&](const Wait& wait) {
    return wait.last && wait.last->rank == out.rank ? wait.for_last_rank_ms() : 0;
  });
  if (out.ms < slower * out.others_ms) return {};
  // The master answers each worker separately, and a trace does not show for which worker it waits;
  // but its values need all workers' gradients.
  const bool all_wait = topology_of(e.plan()) == SchemeTopology::master;
  if (!all_wait && out.waited_ms < least_share * e.ms.mean()) return {};
  return out;
}

std::string waits_of_others(const Slowest& one) {
  return one.waited_ms > 0
             ? fmt::format(" An average worker waits {} ms of a step for rank {} to come.",
                           runner::milliseconds(one.waited_ms), one.rank)
             : "";
}

}  // namespace

std::optional<Finding> disturbed_machine(const Evidence& e, const std::vector<Finding>&) {
  const std::string what = disturbance(*e.row);
  if (what.empty()) return {};
  const double lost = lost_share(*e.row);
  return Finding{
      .ms = lost * e.ms.mean(),
      .sentence = fmt::format("The machine was not left to the run: {}. That took {:.0f}% of the "
                              "processor time of the run, so its times are too long.",
                              what, 100 * lost),
      .remedies = {{.words = "running it again on an idle machine"}}};
}

std::optional<Finding> more_threads_than_cores(const Evidence& e, const std::vector<Finding>&) {
  const RunRecord& row = *e.row;
  if (!too_many_threads(row)) return {};
  const RunPlan& plan = e.plan();
  const double cores = shared_cores(row), threads = threads_of_workers(plan);
  const double share = cores / threads;
  const std::string who = fmt::format(
      "{} workers with {} thread{} each share {:.0f} cores{}. A thread gets {:.0f}% of a "
      "core",
      plan.world, plan.cluster ? 1 : plan.device.threads,
      plan.cluster || plan.device.threads == 1 ? "" : "s", cores,
      row.cores ? fmt::format(", of which {:.1f} were busy on average", *row.cores) : "",
      100 * share);
  Finding out;
  if (plan.cluster) {
    // A simulated operation takes its own time, and waits for a core before that.
    out.ms = std::min(std::max(0.0, e.ms.idle), e.ms.mean() * (1 - share));
    out.sentence = fmt::format("{}, so {} ms of a step pass while a worker waits for a core.", who,
                               runner::milliseconds(out.ms));
  } else {
    const double worked = e.ms.compute + e.ms.optimizer + e.ms.encoding;
    out.ms = worked * (1 - share);
    out.sentence = fmt::format(
        "{}, so compute and optimizer take {} ms, and would take about {} ms with a core for each "
        "thread.",
        who, runner::milliseconds(worked), runner::milliseconds(worked * share));
  }
  const std::int64_t own_threads = plan.cluster ? 1 : plan.device.threads;
  const auto fitting = static_cast<int>(cores) / static_cast<int>(own_threads);
  if (fitting >= 1) out.remedies.push_back({.words = "as many workers as cores", .world = fitting});
  if (own_threads > 1 && static_cast<double>(plan.world) <= cores)
    out.remedies.push_back(
        {.words = "fewer threads in each worker",
         .settings = {{"device.threads", std::to_string(static_cast<int>(cores) / plan.world)}},
         .not_simulated = "a calibration is of ranks with one number of threads"});
  return out;
}

std::optional<Finding> slow_rank(const Evidence& e, const std::vector<Finding>&) {
  const auto one = slowest_of(e);
  if (!one || one->sample_ms < slower * one->others_sample_ms) return {};
  Finding out{
      .ms = one->ms - one->others_ms,
      .sentence = fmt::format("Rank {} is slow: its compute takes {} ms of a step, {:.2f} times as "
                              "long as that of the other ranks ({} ms in the median).{}",
                              one->rank, runner::milliseconds(one->ms), one->ms / one->others_ms,
                              runner::milliseconds(one->others_ms), waits_of_others(*one))};
  const RunPlan& plan = e.plan();
  // Cores of one machine are equal. The slow worker there is chosen by the system's scheduler and
  // changes from run to run, so shares by speed would not help.
  if (share_a_memory(plan) && !plan.cluster && plan.device.slow.empty()) {
    out.remedies.push_back(
        {.words = "running it again: workers are not bound to cores, and what slows one of them, "
                  "such as another program or a core's second thread, may be gone"});
    return out;
  }
  Remedy shares{.words = "shares of the samples in proportion to the speed of the ranks",
                .settings = {{"train.shares", "speed"}}};
  if (!plan.cluster)
    shares.not_simulated = "on a calibrated machine the simulator takes all ranks as equally fast";
  if (plan.promise == Promise::same_run) out.remedies.push_back(std::move(shares));
  return out;
}

std::optional<Finding> uneven_shares(const Evidence& e, const std::vector<Finding>&) {
  const auto one = slowest_of(e);
  if (!one || one->sample_ms >= slower * one->others_sample_ms) return {};
  const double own = samples_of_rank(e.plan(), one->rank);
  std::vector<double> others;
  for (const RankTime& rank : e.ranks)
    if (rank.rank != one->rank) others.push_back(samples_of_rank(e.plan(), rank.rank));
  if (own <= runner::median(others)) return {};
  return Finding{.ms = one->ms - one->others_ms,
                 .sentence = fmt::format(
                     "Rank {} has {:.0f} samples of a step, and the other ranks {:g} in the "
                     "median, though a sample takes all of them about as long: it computes "
                     "for {} ms, and they for {} ms.{}",
                     one->rank, own, runner::median(others), runner::milliseconds(one->ms),
                     runner::milliseconds(one->others_ms), waits_of_others(*one)),
                 .remedies = {{.words = "equal shares", .settings = {{"train.shares", "equal"}}}}};
}

std::optional<Finding> reading_samples(const Evidence& e, const std::vector<Finding>&) {
  return Finding{
      .ms = e.ms.data,
      .sentence = fmt::format("Workers wait {} ms of a step for their samples to be read.",
                              runner::milliseconds(e.ms.data)),
      .remedies = {
          {.words = "data that are read faster, such as a file of tokens on a local disk"}}};
}

}  // namespace ringside::tools::explain
