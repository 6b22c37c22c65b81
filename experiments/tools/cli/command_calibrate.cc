// ringside calibrate
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <iostream>
#include <optional>

#include "core/base/error.h"
#include "core/base/processor.h"
#include "core/base/whole_file.h"
#include "core/plan/run_plan.h"
#include "experiments/runner/config/cluster_file.h"
#include "experiments/runner/hosts/placement.h"
#include "experiments/runner/plan/checks.h"
#include "experiments/runner/plan/planner.h"
#include "experiments/runner/registry/rank_devices.h"
#include "experiments/tools/calibrate/calibrate.h"
#include "experiments/tools/cli/calibrate_from.h"
#include "experiments/tools/cli/command.h"
#include "experiments/tools/cli/job_start.h"
#include "experiments/tools/cli/output_files.h"

namespace ringside::tools::cli {
namespace {

struct CalibrateArguments {
  std::vector<std::string> files;  // experiment files whose models are timed
  std::int64_t threads = 1;
  std::string device = "cpu";
  FitArguments from;  // its cluster and results are also those of a calibration
  JobArguments job;
};

const std::string processor_kind = "cpu";

void declare_calibration(CommandOptions& options, CalibrateArguments& arguments) {
  const Option timed =
      options
          .add("files", arguments.files,
               "experiment files that are to be predicted: the operations of their models are "
               "timed themselves, instead of estimated from those of other models")
          .type("FILES");
  const Option threads =
      options.add("--threads", arguments.threads, "threads of a rank (device.threads)")
          .type("N")
          .shows_default();
  const Option from =
      options
          .add("--from", arguments.from.files,
               "fit the cluster that these files name: experiment files whose cases have "
               "published figures of one device, and files of collectives, whose tables may "
               "be the output of nccl-tests (as `validate` reads them)")
          .type("FILES")
          .excludes(threads)
          .excludes(timed);
  options
      .add("--device", arguments.device,
           "cuda: the models of FILES are timed on a GPU, as if device.kind were cuda there")
      .type("KIND")
      .shows_default()
      .excludes(from);
  options
      .add("--cluster", arguments.from.cluster,
           "with --device cuda: the cluster file of the machine in which the GPU is, whose links, "
           "host, peaks and number of GPUs count; with --from: the cluster file whose figures "
           "count, where there are several")
      .type("FILE");
  options
      .add("--results", arguments.from.results,
           "write DIR/machine.toml, DIR/cuda.toml with --device cuda, or DIR/hosts.toml for "
           "several hosts, which `compare` with the same --results finds; with --from, "
           "DIR/CLUSTER-fitted.toml")
      .type("DIR")
      .shows_default();
}

/// The runs of an experiment file that can be predicted on this kind of device.
std::vector<RunPlan> runs_of(const std::string& file, const CalibrateArguments& arguments,
                             bool in_job) {
  const bool on_processor = arguments.device == processor_kind;
  runner::Experiment experiment =
      runner::read_experiment(file, on_processor ? std::vector<std::string>{}
                                                 : std::vector{"device.kind=" + arguments.device});
  experiment.common.in_job = in_job;
  std::vector<RunPlan> out;
  for (RunPlan& run : runner::plan_comparison(experiment, allowed_cores().value_or(0)))
    if (run.device.kind == arguments.device &&
        (!on_processor || run.device.threads == arguments.threads) &&
        run.purpose == Purpose::asked && run.repeat == 0 && run.train.offload == Offload::none)
      out.push_back(std::move(run));
  if (!out.empty()) return out;
  if (!on_processor)
    throw Error("{}: no run of it computes on device '{}' without offload; leave the file out",
                file, arguments.device);
  throw Error(
      "{}: no run of it computes on this machine's processor with {} thread{} a rank; leave "
      "the file out, or give --threads as its device.threads",
      file, arguments.threads, arguments.threads == 1 ? "" : "s");
}

std::vector<RunPlan> runs_of(const CalibrateArguments& arguments, bool in_job) {
  std::vector<RunPlan> out;
  for (const std::string& file : arguments.files)
    for (RunPlan& run : runs_of(file, arguments, in_job)) out.push_back(std::move(run));
  runner::check_inputs(out);
  return out;
}

/// Checks the additional needs of a calibration of another device than the processor.
void check_device(const CalibrateArguments& arguments, const runner::Job* job) {
  const runner::DeviceRow& row = runner::find_device(arguments.device);
  if (!row.describe)
    throw Error("--device {}: such devices cannot be measured; choose cpu or cuda", row.name);
  if (arguments.device == processor_kind) {
    if (!arguments.from.cluster.empty())
      throw Error("--cluster is for --from and for --device cuda; leave it out");
    return;
  }
  if (job)
    throw Error("--device {}: calibrate runs on one host; leave --host and --hosts out", row.name);
  if (arguments.files.empty())
    throw Error("--device {}: name the experiment files whose models are to be timed", row.name);
  row.describe();  // throws if there is no such device
}

/// This host for ranks on its devices of this kind.
calibrate::CalibrationSite site_of_devices(const std::string& kind, runner::RankStart start) {
  calibrate::CalibrationSite site{.start = std::move(start),
                                  .trainings = calibrate::trainings_of_gpus};
  site.cores = site.slots = allowed_cores().value_or(1);
  site.place = [devices = runner::find_device(kind).devices()](RunPlan& run) {
    runner::number_devices(
        run, [&](const std::string&, int) -> const auto& { return devices; });
    runner::set_environments(run);
  };
  return site;
}

/// The hosts of the job, or this one. `runs` decide the library between hosts.
calibrate::CalibrationSite site_of(runner::Job* job, const std::vector<RunPlan>& runs,
                                   runner::RankStart start) {
  calibrate::CalibrationSite site{.start = std::move(start)};
  if (!runs.empty()) site.between = runs.front().hosts.between;
  if (!job) {
    site.cores = site.slots = allowed_cores().value_or(1);
    return site;
  }
  const std::vector<runner::HostRoom> rooms = runner::rooms_of(job->agents());
  site.hosts = static_cast<int>(rooms.size());
  site.cores = rooms.front().cores;
  site.slots = rooms.front().slots;
  for (const runner::HostRoom& room : rooms) {
    site.cores = std::min(site.cores, room.cores);
    site.slots = std::min<std::int64_t>(site.slots, room.slots);
  }
  site.place = [job](RunPlan& run) {
    std::vector<RunPlan> runs_of_one = {std::move(run)};
    runner::place_on_hosts(runs_of_one, job->agents(),
                           [job](const std::string& kind) { return job->devices(kind); });
    run = std::move(runs_of_one.front());
  };
  site.start.agents = {job->hosts(), [job](const RunPlan& run) { return job->sidecar(run); }};
  site.start.interrupted = [job, asked = site.start.interrupted] {
    return asked() || job->lost_idle();
  };
  return site;
}

int measure(const CalibrateArguments& arguments, const Process& process, runner::Job* job) {
  const bool on_processor = arguments.device == processor_kind;
  std::filesystem::path file;
  std::vector<RunPlan> runs;
  std::optional<sim::ClusterSpec> around;
  calibrate::CalibrationSite site;
  process.catch_interrupts();
  OutputStream errors(STDERR_FILENO, process.interrupted);
  try {
    check_readable(process);
    if (arguments.threads < 1 || arguments.threads > most_threads)
      throw Error("--threads {} must lie between 1 and {}", arguments.threads, most_threads);
    std::error_code failed;
    std::filesystem::create_directories(arguments.from.results, failed);
    if (failed) throw Error("--results {}: {}", arguments.from.results, failed.message());
    check_device(arguments, job);
    if (!arguments.from.cluster.empty()) around = runner::read_cluster(arguments.from.cluster);
    runs = runs_of(arguments, job != nullptr);
    site = on_processor ? site_of(job, runs, rank_start(process, errors))
                        : site_of_devices(arguments.device, rank_start(process, errors));
    file = check_output("--results",
                        machine_file(arguments.from.results, site.hosts, arguments.device))
               .path;
  } catch (const std::exception& error) {
    return complain(wrong_input, error.what());
  }
  try {
    const auto told = [&](const std::string& what) {
      errors << "measuring " << what << " ..." << std::endl;
    };
    const sim::ClusterSpec cluster = on_processor
                                         ? calibrate::calibrate(arguments.threads, runs, site, told)
                                         : calibrate::calibrate_gpu(runs, site, around, told);
    write_whole(file,
                runner::cluster_text(
                    cluster, fmt::format("{}. Measured by `ringside calibrate`.", cluster.name)));
    std::cout << fmt::format("{}: ", cluster.name);
    for (const auto& [dtype, tflops] : cluster.device.tflops)
      if (on_processor ? dtype == "fp32" : tflops > 0)
        std::cout << fmt::format("{:.4g} {}FLOP/s {}, ", on_processor ? 1e3 * tflops : tflops,
                                 on_processor ? "G" : "T", on_processor ? "a rank" : dtype);
    std::cout << fmt::format("{:.1f} GB/s", cluster.device.bandwidth_gbs);
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

int calibrate_hosts(const CalibrateArguments& arguments, const Process& process) {
  return in_job({"calibrate", arguments.files, {"--threads", fmt::format("{}", arguments.threads)}},
                arguments.job, process,
                [&](runner::Job* job) { return measure(arguments, process, job); });
}

}  // namespace

Execute calibrate_command(CommandOptions& options) {
  options.summary(
      "measure this machine, or the hosts of a job and their network, and write a cluster file for "
      "predicting runs there; or fit a cluster to figures that were measured on one like it");
  options.uses_cores();
  const auto arguments = std::make_shared<CalibrateArguments>();
  declare_calibration(options, *arguments);
  add_job(options, arguments->job);
  add_launched(options, arguments->job);
  add_hosts(options, arguments->job);
  return [arguments](const Process& process) {
    return arguments->from.files.empty() ? calibrate_hosts(*arguments, process)
                                         : fit_cluster(arguments->from, process);
  };
}

}  // namespace ringside::tools::cli
