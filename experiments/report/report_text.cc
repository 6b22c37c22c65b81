// A summary as text: the tables, and an explanation of their columns.
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "experiments/report/assumed.h"
#include "experiments/report/published.h"
#include "experiments/report/report_tables.h"
#include "experiments/report/sweep.h"

namespace ringside {
namespace {

bool any_simulated(const std::vector<CaseSummary>& cases) {
  return std::any_of(cases.begin(), cases.end(),
                     [](const CaseSummary& one) { return !one.cluster.empty(); });
}

/// Says which rows were simulated, all or those that the table marks, and what was assumed there.
std::string simulated_text(const std::vector<CaseSummary>& cases) {
  std::vector<std::string> clusters;
  std::vector<AssumedOf> assumed;
  bool all = true;
  for (const CaseSummary& one : cases) {
    all = all && !one.cluster.empty();
    assumed.push_back({one.cluster, one.assumed});
    if (!one.cluster.empty() &&
        std::find(clusters.begin(), clusters.end(), one.cluster) == clusters.end())
      clusters.push_back(one.cluster);
  }
  if (clusters.empty()) return {};
  const std::string on =
      fmt::format("SIMULATED on cluster {}: virtual time; ", fmt::join(clusters, " and cluster "));
  return on +
         (all ? "nothing here was measured.\n"
              : "only rows without the word SIMULATED in their last column were measured.\n") +
         assumed_text(assumed) + "\n";
}

/// Says what the brackets behind a speed-up hold: a 95% interval, or, after few repeats, the range
/// of the speed-ups of all repeats. Such a range holds the true median less often.
std::string interval_text(const std::vector<CaseSummary>& cases) {
  int repeats = 0;
  for (const CaseSummary& one : cases) repeats = std::max(repeats, one.repeats - one.failed);
  constexpr int enough = 6;
  if (repeats >= enough) return "its 95% interval";
  return fmt::format(
      "the range over {} repeats, which contains the true median with a probability of {:.0f}%",
      repeats, 100 * (1 - std::exp2(1 - repeats)));
}

std::string columns_text(const std::vector<CaseSummary>& cases) {
  std::string out =
      "\nworld: number of workers. procs: number of processes, with those of dedicated servers.";
  if (const std::string cores = cores_column(cases); cores == "cores")
    out += " cores: processor cores at work in the measured steps, on average.";
  out +=
      "\nsamples/s: over all measured steps of the slowest worker; median over repeats, ± half of "
      "their range. speed-up: samples/s divided by those of `single` in the same repeat; median, "
      "and in brackets ";
  out += interval_text(cases);
  out += ". eff.: speed-up divided by world.\n";
  if (with_all_cores(cases))
    out +=
        "vs all cores: like speed-up, but against `single` with as many threads as the largest "
        "world has in all.\n";
  out +=
      "step ms: median step of the slowest worker. compute, exposed (waiting for other ranks), "
      "optim. (if servers run the optimizer: the time of the busiest server; the workers' wait for "
      "it counts as exposed) and other (data, idle and encoding): means over workers and steps.\n"
      "MB sent: 10^6 bytes that the busiest rank sends in a step; least: the fewest bytes that the "
      "scheme has to send. peak MB: memory of the busiest rank. loss: of the last step; if there "
      "are "
      "several seeds, of the smallest one, as are held-out losses.\n"
      "proof: the run is held against `single` over the same micro-batches, or, if its scheme has "
      "an algorithm or an order of sums of its own, against the scheme's definition: a sequential "
      "program on one rank; if its results depend on when messages come, that program repeats what "
      "the "
      "servers recorded of the run (replayed). "
      "bit-identical: parameters, losses and evaluations have the same bits. to rounding: losses "
      "differ only as much as rounding explains. DIFFERENT: another training run, so no speed-up. "
      "not shown: nothing to compare, for the cause that follows.\n";
  if (std::any_of(cases.begin(), cases.end(),
                  [](const CaseSummary& one) { return one.promise != Promise::same_run; }))
    out +=
        "*: a scheme with an algorithm of its own. Its samples do not train the model as those of "
        "`single` do, so samples/s is no speed-up; compare such schemes by time to loss.\n";
  if (std::any_of(cases.begin(), cases.end(),
                  [](const CaseSummary& one) { return one.bytes_computed; }))
    out +=
        "~: computed from sizes, not counted: NCCL does not say what it sends, and parameters that "
        "are read in place are not sent.\n";
  if (with_predictions(cases))
    out +=
        "predicted: by a simulation of this machine, before the run was measured; in brackets the "
        "error of the prediction.\n";
  if (with_intervals(cases))
    out +=
        "interval: where the simulated step lies, in ms, as far as the errors that the cluster "
        "file states for its devices, its collectives and its steps allow.\n";
  return out;
}

std::string ties_text(const std::vector<CaseSummary>& cases) {
  std::vector<std::string> groups;
  for (const Tie& tie : ties(cases))
    groups.push_back(fmt::format("{} (world {})", fmt::join(tie.labels, ", "), tie.world));
  if (groups.empty()) return {};
  return fmt::format("Not ranked, because their speed-ups have overlapping intervals: {}.{}\n",
                     fmt::join(groups, "; "),
                     any_simulated(cases) ? "" : " More repeats may tell them apart.");
}

/// Says what this comparison in particular cannot tell, and why.
std::string remarks_text(const std::vector<CaseSummary>& cases) {
  std::string out = ties_text(cases);
  const auto with_speed_up = [](const CaseSummary& one) { return one.speed_up.median >= 0; };
  if (std::none_of(cases.begin(), cases.end(), with_speed_up) &&
      std::none_of(cases.begin(), cases.end(), [](const CaseSummary& one) {
        return one.scheme == "single" && one.purpose == Purpose::asked;
      }))
    out +=
        "No speed-up: `single` was not compared (a reference run is made once, on a machine that "
        "is still cold, so its speed does not count); add `single` to compare.schemes.\n";
  if (!any_simulated(cases) && std::any_of(cases.begin(), cases.end(), with_speed_up) &&
      std::none_of(cases.begin(), cases.end(),
                   [](const CaseSummary& one) { return one.speed_up.interval.has_value(); }))
    out +=
        "One repeat: speed-ups have no interval, and small differences between them say nothing; "
        "set compare.repeats.\n";
  if (std::any_of(cases.begin(), cases.end(),
                  [](const CaseSummary& one) { return one.other_batch; }))
    out +=
        "Some cases have another global batch than the `single` that they are compared with: their "
        "speed-ups are per sample, and do not say how soon the same loss is reached.\n";
  int superseded = 0, disturbed = 0;
  for (const CaseSummary& one : cases) {
    superseded += one.superseded;
    disturbed += one.disturbed;
  }
  if (superseded > 0 || disturbed > 0)
    out += fmt::format(
        "disturbed: other work on this machine disturbed a run. Such a run is made again, and its "
        "quietest attempt counts. Attempts that do not count: {}. Runs without a quiet attempt, "
        "whose figures are doubtful: {}.\n",
        superseded, disturbed);
  for (const CaseSummary& one : cases)
    if (one.disturbed > 0)
      out += fmt::format("Disturbed: {} at world {}: {}.\n", one.label, one.world, one.disturbance);
  for (const CaseSummary& one : cases)
    for (const std::string& how : one.lost_workers)
      out += fmt::format("Lost: {} at world {} went on although {}.\n", one.label, one.world, how);
  for (const CaseSummary& one : cases)
    if (!one.prediction_failure.empty())
      out += fmt::format("No prediction of {} at world {}: {}\n", one.label, one.world,
                         one.prediction_failure);
  return out;
}

std::string time_to_loss_text(const std::vector<CaseSummary>& cases) {
  std::string out =
      "\nUntil the held-out loss first reaches the target, interpolated between evaluations: "
      "seconds of the slowest worker in steps (evaluations are left out), samples, and bytes that "
      "all ranks send. Median over seeds and repeats, and their range. vs single: seconds of "
      "`single` divided by those of the case. final - single's: the mean of the last three "
      "held-out losses, minus that of `single` with the same seed.\n";
  double spread = -1;
  for (const CaseSummary& one : cases)
    if (one.time_to_loss && one.time_to_loss->seed_spread)
      spread = std::max(spread, *one.time_to_loss->seed_spread);
  if (spread >= 0)
    out += fmt::format(
        "Seeds alone move the final loss of `single` by ±{:.4f}; smaller differences say nothing "
        "about a scheme.\n",
        spread);
  return out;
}

}  // namespace

std::string summary_text(const std::vector<CaseSummary>& cases) {
  std::string out = simulated_text(cases) + figures_table(cases) + columns_text(cases);
  if (const std::string remarks = remarks_text(cases); !remarks.empty()) out += "\n" + remarks;
  if (const std::string published = published_text(published_figures(cases)); !published.empty())
    out += "\n" + published;
  if (const std::string held_out = evaluation_table(cases); !held_out.empty())
    out += "\n" + held_out;
  if (const std::string figures = scheme_figures_table(cases); !figures.empty())
    out += "\n" + figures +
           "\nWhat schemes report of themselves: the mean and the largest value over the workers "
           "that report it; of several repeats, the median of the means and the largest value of "
           "all.\n";
  if (const std::string staleness = staleness_table(cases); !staleness.empty())
    out += "\n" + staleness +
           "\nStaleness of a gradient: the updates of its range, and the time, between the values "
           "from which a worker computed it and those to which a server applied it; measured steps "
           "of the repeat with the stalest one. dropped: gradients that came too late and were "
           "applied nowhere.\n";
  if (const std::string time = time_to_loss_table(cases); !time.empty())
    out += "\n" + time + time_to_loss_text(cases);
  if (const std::string sweep = sweep_tables(cases); !sweep.empty()) out += "\n" + sweep;
  const std::string memory = memory_table(cases);
  if (memory.empty()) return out;
  out +=
      "\n" + memory +
      "\nOne line for each role: its busiest rank, and what this rank held at its peak. peak: the "
      "least and the most over repeats, if they differ. all ranks: the sum of all ranks' "
      "peaks. resident: memory of the process as the operating system counts it.\n";
  if (with_device_memory(cases))
    out +=
        "reserved: the most that the device's allocator took from the driver. outside: what the "
        "context, libraries and other processes took besides.\n";
  if (with_host_memory(cases))
    out +=
        "its host: what the same rank holds in the host's memory (train.offload). optim. is then "
        "the rank's own time in the optimizer plus that of the host's processor; waiting for the "
        "host counts as exposed.\n";
  return out;
}

}  // namespace ringside
