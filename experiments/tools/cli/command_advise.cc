// ringside advise
#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "core/base/error.h"
#include "core/base/processor.h"
#include "core/base/seconds_now.h"
#include "core/base/whole_file.h"
#include "core/models/presets.h"
#include "core/plan/device_traits.h"
#include "core/sim/world.h"
#include "experiments/runner/config/cluster_file.h"
#include "experiments/runner/config/experiment_text.h"
#include "experiments/runner/plan/checks.h"
#include "experiments/tools/advise/advice_text.h"
#include "experiments/tools/calibrate/calibrate.h"
#include "experiments/tools/cli/command.h"
#include "experiments/tools/cli/experiment_arguments.h"
#include "experiments/tools/cli/output_files.h"

namespace ringside::tools::cli {
namespace {

struct AdviseArguments {
  std::string model;  // a preset or an experiment file
  std::vector<std::string> settings;
  std::string cluster;
  std::int64_t batch = 0;
  std::vector<std::int64_t> worlds;
  std::vector<std::string> precisions;
  double price = 0, samples = 0, deadline_h = 0, reserve_gb = 1.5, seconds = 40;
  std::size_t shown = 8, written = 1;  // cases in the table and in the experiment file
  bool explain = false, meshes = false;
  std::string results = "results";
};

void declare_advice(CommandOptions& options, AdviseArguments& arguments) {
  options
      .add("MODEL", arguments.model,
           "a preset (see `ringside list models`), or an experiment file, whose training "
           "stays as it is except for the advised settings")
      .required();
  add_settings(options, arguments.settings);
  options
      .add("--cluster", arguments.cluster,
           "the cluster file; default: that of the experiment file, or this machine as `ringside "
           "calibrate` measured it")
      .type("FILE");
  options.add("--batch", arguments.batch, "the global batch; default: that of the experiment file")
      .between(std::int64_t{1}, std::int64_t{1} << 24)
      .type("SAMPLES");
  options
      .add("--worlds", arguments.worlds,
           "numbers of workers to consider; default: all devices, and with --deadline also half of "
           "the machines, a quarter and so on")
      .list()
      .type("N,M")
      .between(1, 1'000'000);
  options
      .add("--precisions", arguments.precisions,
           "fp32, tf32, bf16, fp16: precisions to consider; default: that of the experiment file; "
           "for presets bf16 or fp16, and tf32 or fp32")
      .list()
      .type("A,B");
  options.add("--price", arguments.price, "price of a device for an hour, in any currency")
      .positive()
      .type("P");
  options.add("--samples", arguments.samples, "number of samples to train").positive().type("N");
  options
      .add("--deadline", arguments.deadline_h,
           "hours within which to train them; of the cases that meet this, the one with "
           "the fewest hours of devices is best")
      .positive()
      .type("HOURS");
  options
      .add("--reserve", arguments.reserve_gb,
           "GB of each GPU that stay free for its context, NCCL's buffers and fragments")
      .not_negative()
      .type("GB")
      .shows_default();
  options.add("--seconds", arguments.seconds, "seconds for which candidates are simulated")
      .positive()
      .type("S")
      .shows_default();
  options.add("--top", arguments.shown, "lines of the table")
      .between(1, 1000)
      .type("N")
      .shows_default();
  options
      .add("--cases", arguments.written,
           "number of the best candidates that become cases of the experiment file in "
           "DIR/advise")
      .between(1, 100)
      .type("N")
      .shows_default();
  options.flag("--meshes", arguments.meshes,
               "search meshes of data x pipeline too where the model fits without them");
  options.flag("--explain", arguments.explain,
               "for every other candidate, print the reason why it is not advised");
  add_results(options, arguments.results);
}

/// The settings that options of the command stand for.
std::vector<std::string> settings_of_advice(const AdviseArguments& arguments) {
  std::vector<std::string> all;
  if (!arguments.cluster.empty()) {
    all.push_back("device.kind=sim");
    all.push_back("device.cluster=" + arguments.cluster);
  }
  if (arguments.batch > 0) {
    all.push_back("train.batch_per_rank=0");
    all.push_back("train.global_batch=" + std::to_string(arguments.batch));
  }
  all.insert(all.end(), arguments.settings.begin(), arguments.settings.end());
  return all;
}

/// This machine as `ringside calibrate` measured it.
sim::ClusterSpec machine_of(const DeviceConfig& device, const std::string& results) {
  const std::string file = device.cluster.empty() ? machine_file(results) : device.cluster;
  if (!std::filesystem::exists(file))
    throw Error(
        "{} is not there: run `ringside calibrate EXPERIMENT.toml` first, which measures this "
        "machine, or name a cluster with --cluster, such as experiments/clusters/dgx-a100.toml",
        file);
  sim::ClusterSpec machine = runner::read_cluster(file);
  if (const std::string here = calibrate::calibration_name(device.threads); machine.name != here)
    throw Error("{} describes '{}', but this machine is '{}'; run `ringside calibrate` here", file,
                machine.name, here);
  return machine;
}

advise::Question question_of(const AdviseArguments& arguments, std::ostream& errors) {
  advise::Question question;
  question.seconds = arguments.seconds;
  question.processes = std::max(1, allowed_cores().value_or(1));
  question.worlds = arguments.worlds;
  question.precisions = arguments.precisions;
  question.price = arguments.price;
  question.samples = arguments.samples;
  question.deadline_h = arguments.deadline_h;
  question.meshes = arguments.meshes;
  if (question.deadline_h > 0 && question.samples == 0)
    throw Error("--deadline says within how many hours; say with --samples how many samples");
  const std::vector<std::string> settings = settings_of_advice(arguments);
  const bool file = arguments.model.ends_with(".toml") || std::filesystem::exists(arguments.model);
  if (!file && arguments.batch == 0)
    throw Error("--batch: say how many samples a step of {} has", arguments.model);
  if (file) {
    const runner::Experiment experiment = runner::read_experiment(arguments.model, settings);
    question.training = experiment.common;
    if (!experiment.cases.empty() || !experiment.sweep.empty())
      errors << fmt::format(
          "{}: its cases and its sweep are left out; what its tables say counts\n",
          arguments.model);
  } else {
    question.training = advise::training_of_preset(arguments.model, settings);
  }
  const DeviceConfig& device = question.training.device;
  if (device_traits(device.kind).on_processor) {
    if (arguments.meshes)
      throw Error(
          "--meshes: pipelines are searched on simulated clusters; name one with --cluster");
    question.machine = machine_of(device, arguments.results);
  } else if (question.training.cluster) {
    question.reserve_gb = arguments.reserve_gb;
  } else {
    throw Error("device.kind '{}': runs on it cannot be predicted; name a cluster with --cluster",
                device.kind);
  }
  if (!file && question.precisions.empty() && !question.machine)
    question.precisions = advise::usual_precisions(question);
  runner::check_config(question.training);
  if (const std::int64_t pipeline = question.training.mesh.pipeline; pipeline > 1)
    throw Error("mesh.pipeline = {}: only ways without a pipeline are tried; leave it out",
                pipeline);
  advise::complete(question);
  for (const std::int64_t world : arguments.worlds)
    if (std::find(question.worlds.begin(), question.worlds.end(), world) == question.worlds.end())
      errors << fmt::format("world {} is left out: a global batch of {} is not divided by {}\n",
                            world, question.training.train.global_batch, world);
  return question;
}

/// The output file for the advice, in a folder that can be written. Throws Error if it is the
/// experiment in question.
OutputFile output_of(const advise::Question& question, const AdviseArguments& arguments) {
  const std::filesystem::path folder = std::filesystem::path(arguments.results) / "advise";
  std::error_code failed;
  std::filesystem::create_directories(folder, failed);
  if (failed) throw Error("--results {}: {}", arguments.results, failed.message());
  const std::filesystem::path path = folder / (question.training.name + ".toml");
  if (std::filesystem::equivalent(path, arguments.model, failed))
    throw Error("{} is the experiment itself, which is not overwritten; choose another --results",
                arguments.model);
  return check_output("--results", path.string());
}

/// The advised case as an experiment, whose tables have its settings, and the next best ones as
/// further cases if more than one is asked for.
std::string experiment_for(const advise::Question& question, const advise::Advice& advice,
                           std::size_t most) {
  const advise::Considered& best = advice.ranked.front();
  runner::Experiment experiment(advise::advised_training(question, best.candidate));
  runner::ExperimentConfig& common = experiment.common;
  common.compare = {};
  common.compare.schemes = {};
  common.compare.worlds = {best.candidate.world};
  if (!question.machine) common.compare.repeats = 1;
  for (std::size_t i = 0; i < advice.ranked.size() && i < most; ++i)
    experiment.cases.push_back(advise::case_of(question, advice.ranked[i].candidate));
  return runner::experiment_text(experiment, fmt::format("Advised by `ringside advise`: {}\n{}",
                                                         advise::label_of(best.candidate),
                                                         advise::reason_of(question, advice)));
}

int advise(const AdviseArguments& arguments, const Process& process) {
  OutputStream errors(STDERR_FILENO, process.interrupted);
  advise::Question question;
  OutputFile output;
  try {
    question = question_of(arguments, errors);
    output = output_of(question, arguments);
    sim::require_simgrid();
  } catch (const std::exception& error) {
    return complain(wrong_input, error.what());
  }
  process.catch_interrupts();
  const runner::Simulate simulate =
      runner::parallel_simulations(rank_start(process, errors), question.processes);
  const auto say = [&errors](const advise::Considered& one) {
    errors << fmt::format("simulated: {} at world {}: {:.1f} samples/s",
                          advise::label_of(one.candidate), one.candidate.world, one.samples_per_s)
           << std::endl;
  };
  try {
    const advise::Advice advice =
        advise::search(question, simulate, runner::rehearse, seconds_now, say);
    errors.finish();
    if (advice.interrupted) return complain(was_interrupted, "interrupted");
    OutputStream out(STDOUT_FILENO, process.interrupted);
    out << advise::question_text(question) << "\n"
        << advise::advice_text(question, advice, arguments.shown, arguments.explain);
    if (advice.ranked.empty()) return finish(out, run_failed);
    write_whole(output.path, experiment_for(question, advice, arguments.written));
    out << "\nRun it: ringside compare "
        << (std::filesystem::path(arguments.results) / "advise" / output.path.filename()).string()
        << "\n";
    return finish(out, ok);
  } catch (const std::exception& error) {
    return complain(run_failed, error.what());
  }
}

}  // namespace

Execute advise_command(CommandOptions& options) {
  options.summary(
      "simulate the ways of training a model on a cluster, and name the best one "
      "with the reason: scheme, degree of sharding, precision, recomputation, "
      "offload, micro-batches, buckets");
  options.uses_cores();
  const auto arguments = std::make_shared<AdviseArguments>();
  declare_advice(options, *arguments);
  return [arguments](const Process& process) { return advise(*arguments, process); };
}

}  // namespace ringside::tools::cli
