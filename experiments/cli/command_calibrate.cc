// ringside calibrate
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <iostream>

#include "core/base/error.h"
#include "core/base/processor.h"
#include "core/base/whole_file.h"
#include "core/plan/run_plan.h"
#include "experiments/calibrate/calibrate.h"
#include "experiments/cli/commands.h"
#include "experiments/cli/job_start.h"
#include "experiments/cli/output_files.h"
#include "experiments/config/cluster_file.h"
#include "experiments/hosts/placement.h"
#include "experiments/plan/checks.h"
#include "experiments/plan/planner.h"

namespace ringside {

namespace {

/// The runs on this machine's processor that the experiment files ask for, with as many threads a
/// rank.
std::vector<RunPlan> runs_of(const std::vector<std::string>& files, std::int64_t threads,
                             bool in_job) {
  std::vector<RunPlan> out;
  for (const std::string& file : files) {
    const std::size_t before = out.size();
    Experiment experiment = read_experiment(file, {});
    experiment.common.in_job = in_job;
    for (RunPlan& run : plan_comparison(experiment, allowed_cores().value_or(0)))
      if (run.device.kind == "cpu" && run.device.threads == threads &&
          run.purpose == Purpose::asked && run.repeat == 0 && run.train.offload == Offload::none)
        out.push_back(std::move(run));
    if (out.size() == before)
      throw Error(
          "{}: no run of it computes on this machine's processor with {} thread{} a rank; leave "
          "the file out, or give --threads as its device.threads",
          file, threads, threads == 1 ? "" : "s");
  }
  check_inputs(out);
  return out;
}

/// The hosts of the job, or this one. `runs` say what moves values between hosts.
CalibrationSite site_of(Job* job, const std::vector<RunPlan>& runs, RankStart start) {
  CalibrationSite site{.start = std::move(start)};
  if (!runs.empty()) site.between = runs.front().hosts.between;
  if (!job) {
    site.cores = site.slots = allowed_cores().value_or(1);
    return site;
  }
  const std::vector<HostRoom> rooms = rooms_of(job->agents());
  site.hosts = static_cast<int>(rooms.size());
  site.cores = rooms.front().cores;
  site.slots = rooms.front().slots;
  for (const HostRoom& room : rooms) {
    site.cores = std::min(site.cores, room.cores);
    site.slots = std::min<std::int64_t>(site.slots, room.slots);
  }
  site.place = [job](RunPlan& run) {
    std::vector<RunPlan> runs_of_one = {std::move(run)};
    place_on_hosts(runs_of_one, job->agents(),
                   [job](const std::string& kind) { return job->devices(kind); });
    run = std::move(runs_of_one.front());
  };
  site.start.agents = {job->hosts(), [job](const RunPlan& run) { return job->attendant(run); }};
  site.start.interrupted = [job, asked = site.start.interrupted] {
    return asked() || job->lost_idle();
  };
  return site;
}

int measure(const Arguments& arguments, const Process& process, Job* job) {
  std::filesystem::path file;
  std::vector<RunPlan> runs;
  CalibrationSite site;
  process.catch_interrupts();
  OutputStream errors(STDERR_FILENO, process.interrupted);
  try {
    check_readable(process);
    if (arguments.threads < 1 || arguments.threads > most_threads)
      throw Error("--threads {} must lie between 1 and {}", arguments.threads, most_threads);
    std::error_code failed;
    std::filesystem::create_directories(arguments.results, failed);
    if (failed) throw Error("--results {}: {}", arguments.results, failed.message());
    runs = runs_of(arguments.calibrated, arguments.threads, job != nullptr);
    site = site_of(job, runs, rank_start(process, errors));
    file = check_output("--results", machine_file(arguments.results, site.hosts)).path;
  } catch (const std::exception& error) {
    return complain(wrong_input, error.what());
  }
  try {
    const sim::ClusterSpec cluster = calibrate(
        arguments.threads, runs, site,
        [&](const std::string& what) { errors << "measuring " << what << " ..." << std::endl; });
    write_whole(file, cluster_text(cluster, fmt::format("{}. Measured by `ringside calibrate`.",
                                                        cluster.name)));
    std::cout << fmt::format("{}: {:.0f} GFLOP/s a rank, {:.1f} GB/s", cluster.name,
                             1e3 * cluster.device.tflops.at("fp32"), cluster.device.bandwidth_gbs);
    if (site.hosts > 1)
      std::cout << fmt::format(", {:.2f} GB/s between hosts, {:.0f} us a step", cluster.nic.gbs,
                               cluster.nic.step_us);
    std::cout << fmt::format("; written to {}\n", file.string());
    return ok;
  } catch (const std::exception& error) {
    if (process.interrupted()) return complain(was_interrupted, "calibrate: interrupted");
    return complain(run_failed, error.what());
  }
}

}  // namespace

int calibrate_command(const Arguments& arguments, const Process& process) {
  return in_job(
      {"calibrate", arguments.calibrated, {"--threads", fmt::format("{}", arguments.threads)}},
      arguments.job, process, [&](Job* job) { return measure(arguments, process, job); });
}

}  // namespace ringside
