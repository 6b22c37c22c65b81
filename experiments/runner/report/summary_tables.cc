#include "experiments/runner/report/summary_tables.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "experiments/runner/report/published.h"
#include "experiments/runner/report/report_tables.h"
#include "experiments/runner/report/sweep.h"

namespace ringside::runner {
namespace {

/// Explains the brackets behind a speed-up: a 95% interval, or, after few repeats, the range of the
/// speed-ups of all repeats. Such a range holds the true median less often. Empty where there are
/// no brackets, since no case has two repeats that finished.
std::string interval_text(const std::vector<CaseSummary>& cases) {
  int repeats = 0;
  for (const CaseSummary& one : cases) repeats = std::max(repeats, one.runs.finished());
  constexpr int enough = 6;
  if (repeats < 2) return {};
  if (repeats >= enough) return ", and in brackets its 95% interval";
  return fmt::format(
      ", and in brackets the range over {} repeats, which contains the true median with a "
      "probability of {:.0f}%",
      repeats, 100 * (1 - std::exp2(1 - repeats)));
}

std::string columns_text(const std::vector<CaseSummary>& cases) {
  std::string out =
      "world: number of workers. procs: number of processes, with those of dedicated servers.";
  if (with_meshes(cases))
    out += " mesh: workers with different samples x workers with different stages of the model.";
  if (const std::string cores = cores_column(cases); cores == "cores")
    out += " cores: processor cores at work in the measured steps, on average.";
  out +=
      "\nsamples/s: over all measured steps of the slowest worker; median over repeats, ± half of "
      "their range. speed-up: samples/s divided by those of `single` in the same repeat; median";
  out += interval_text(cases);
  out += ". eff.: speed-up divided by world.\n";
  if (with_all_cores(cases))
    out +=
        "vs all cores: like speed-up, but against `single` with as many threads as the largest "
        "world has in all, and no more than there are cores.\n";
  out +=
      "step ms: median step of the slowest worker. compute, exposed (waiting for other ranks), "
      "optim. (if servers run the optimizer: the time of the busiest server; the workers' wait for "
      "it counts as exposed)";
  out += with_encoding(cases)
             ? ", encoding (making messages, and taking what came) and other (data and idle)"
             : " and other (data, idle and encoding)";
  out +=
      ": means over workers and steps.\n"
      "MB sent: 10^6 bytes that the busiest rank sends in a step; least: the fewest bytes that the "
      "scheme has to send. peak MB: memory of the busiest rank. loss: of the last step; if there "
      "are several seeds, of the smallest one, as are held-out losses.\n"
      "proof: the run is held against `single` over the same micro-batches, or, if its scheme has "
      "an algorithm or an order of sums of its own, against the scheme's definition: a sequential "
      "program on one rank; if its results depend on when messages come, that program repeats what "
      "the servers recorded of the run (replayed). tested against: with settings at which the "
      "scheme "
      "must equal another one, the test suite holds it against that (`ringside list identities`). "
      "bit-identical: parameters, losses and "
      "evaluations have the same bits. to rounding: losses differ only as much as rounding "
      "explains. DIFFERENT: another training run, so no speed-up. not shown: nothing to compare, "
      "for the cause that follows.\n";
  if (std::any_of(cases.begin(), cases.end(),
                  [](const CaseSummary& one) { return one.plan.promise != Promise::same_run; }))
    out +=
        "*: a scheme with an algorithm of its own. Its samples do not train the model as those of "
        "`single` do, so samples/s is no speed-up; compare such schemes by time to loss.\n";
  if (std::any_of(cases.begin(), cases.end(),
                  [](const CaseSummary& one) { return one.bytes.computed; }))
    out +=
        "~: computed from sizes, not counted: NCCL and a library's own all-reduce do not say what "
        "they send, and parameters that are read in place are not sent.\n";
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

constexpr const char* pipelines_text =
    "bubble: the share of an average worker's step in which it waits for values of other stages. "
    "bubble formula: that of the schedule, (p - 1)/m of compute for 1f1b with p ranks and m "
    "micro-batches, with the measured mean times of the stages. waiting ms: the same time; of it, "
    "uneven: because some stages take longer than others, as a simulation of the schedule with the "
    "measured times says; sends: what this simulation, whose sends take no time, does not explain. "
    "imbalance: the compute of the slowest stage over that of the mean one.\n"
    "MB data, MB stages: 10^6 bytes that the busiest rank sends in a step to workers with other "
    "samples, and to other stages; least: the fewest that this rank has to send. put right: steps "
    "whose update was put right once the sums over stages were known (pipeline.post_validation).\n";

constexpr const char* stages_text =
    "F, B, I, W: ms of the forward of a micro-batch, of its whole backward, and of the gradient of "
    "the input and those of the weights by themselves, without waits for workers of the same "
    "stage. under way: the most micro-batches between their F and the end of their backward; in "
    "flight: those of the schedule. Of a rank with several stages once: bubble, the share of its "
    "step in which it waits for other stages; activation MB, the most activations that it held at "
    "a time; activation formula, what its micro-batches hold by the schedule, counted without "
    "computing.\n";

std::string time_to_loss_text(const std::vector<CaseSummary>& cases) {
  std::string out =
      "Until the held-out loss first reaches the target, interpolated between evaluations: "
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

std::string memory_text(const std::vector<CaseSummary>& cases) {
  std::string out =
      "One line for each role: its busiest rank, and what this rank held at its peak. peak: the "
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

std::string utilization_text(const std::vector<CaseSummary>& cases) {
  std::string out =
      "communication: ms of a step in which a worker's messages are under way. hidden: of these, "
      "those in which it does not wait for them (communication minus exposed). overlap: hidden "
      "divided by communication. MFU: floating-point operations a second of the model, without "
      "what is recomputed, divided by the peak of all workers; HFU: with it. GFLOP: 10^9 "
      "operations of a sample, forward and backward. peak: GFLOP/s of one worker in products of "
      "that dtype.\n";
  const CaseSummary* most = nullptr;
  for (const CaseSummary& one : cases)
    if (const auto& mfu = one.utilization.mfu; mfu && (!most || *mfu > *most->utilization.mfu))
      most = &one;
  if (most)
    out += fmt::format("{} at world {}: {} (peak: {}); other cases likewise.\n", most->label(),
                       most->plan.world, most->utilization.formula, most->utilization.peak->source);
  return out;
}

}  // namespace

std::vector<SummaryTable> summary_tables(const std::vector<CaseSummary>& cases) {
  std::vector<SummaryTable> out;
  const auto add = [&](SummaryTable table) {
    if (!table.lines.empty()) out.push_back(std::move(table));
  };
  add({"figures", "Figures of every case", figures_table(cases), columns_text(cases)});
  const auto published = published_figures(cases);
  add({"published", "Published figures", published_table(published), published_note(published)});
  add({"pipelines", "Pipelines", pipelines_table(cases), pipelines_text});
  add({"stages", "Stages", stages_table(cases), stages_text});
  add({"held_out", "Held-out losses", evaluation_table(cases)});
  add({"scheme_figures", "What schemes report of themselves", scheme_figures_table(cases),
       "What schemes report of themselves: the mean and the largest value over the workers "
       "that report it; of several repeats, the median of the means and the largest value of "
       "all.\n"});
  add({"staleness", "Staleness of gradients", staleness_table(cases),
       "Staleness of a gradient: the updates of its range, and the time, between the values "
       "from which a worker computed it and those to which a server applied it; measured steps "
       "of the repeat with the stalest one. dropped: gradients that came too late and were "
       "applied nowhere.\n"});
  add({"time_to_loss", "Time to loss", time_to_loss_table(cases), time_to_loss_text(cases)});
  for (const SweepTable& sweep : sweep_of(cases))
    if (sweep.longest)
      add({fmt::format("sweep-{}", sweep.number),
           fmt::format("{} against {}, {}", name_of(sweep.quantity), sweep.key, sweep.fixed),
           sweep_lines(sweep), changes_text(sweep)});
  add({"utilization", "Overlap and utilization", utilization_table(cases), utilization_text(cases),
       with_utilization(cases)});
  add({"memory", "Peak memory of each role", memory_table(cases), memory_text(cases)});
  add({"ranks", "Peak memory of each rank", ranks_table(cases),
       "What each rank held at its peak, in 10^6 bytes. Of many ranks the first ones and the "
       "busiest of each role are shown.\n",
       false});
  return out;
}

}  // namespace ringside::runner
