// ringside advise
#include <unistd.h>

#include <filesystem>

#include "core/base/error.h"
#include "core/base/processor.h"
#include "core/base/seconds_now.h"
#include "core/base/whole_file.h"
#include "core/models/presets.h"
#include "core/sim/world.h"
#include "experiments/advise/advice_text.h"
#include "experiments/calibrate/calibrate.h"
#include "experiments/cli/commands.h"
#include "experiments/config/cluster_file.h"
#include "experiments/config/experiment_text.h"
#include "experiments/plan/checks.h"

namespace ringside {
namespace {

/// The settings that options of the command stand for.
std::vector<std::string> settings_of(const Arguments& arguments) {
  std::vector<std::string> all;
  if (!arguments.cluster.empty()) {
    all.push_back("device.kind=sim");
    all.push_back("device.cluster=" + arguments.cluster);
  }
  if (arguments.batch > 0) {
    all.push_back("train.batch_per_rank=0");
    all.push_back("train.global_batch=" + std::to_string(arguments.batch));
  }
  all.insert(all.end(), arguments.overrides.begin(), arguments.overrides.end());
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
  sim::ClusterSpec machine = read_cluster(file);
  if (const std::string here = calibration_name(device.threads); machine.name != here)
    throw Error("{} describes '{}', but this machine is '{}'; run `ringside calibrate` here", file,
                machine.name, here);
  return machine;
}

Question question_of(const Arguments& arguments) {
  Question question;
  question.seconds = arguments.seconds;
  question.processes = std::max(1, allowed_cores().value_or(1));
  question.worlds = arguments.worlds;
  question.precisions = arguments.precisions;
  question.price = arguments.price;
  question.samples = arguments.samples;
  question.deadline_h = arguments.deadline_h;
  if (question.deadline_h > 0 && question.samples == 0)
    throw Error("--deadline says within how many hours; say with --samples how many samples");
  const std::vector<std::string> settings = settings_of(arguments);
  const bool file = arguments.file.ends_with(".toml") || std::filesystem::exists(arguments.file);
  question.training = file ? read_experiment(arguments.file, settings).common
                           : training_of_preset(arguments.file, settings);
  const DeviceConfig& device = question.training.device;
  if (device.kind == "cpu") {
    question.machine = machine_of(device, arguments.results);
  } else if (question.training.cluster) {
    question.reserve_gb = arguments.reserve_gb;
  } else {
    throw Error("device.kind '{}': runs on it cannot be predicted; name a cluster with --cluster",
                device.kind);
  }
  if (!file && question.precisions.empty() && !question.machine)
    question.precisions = usual_precisions(question.cluster().device);
  complete(question);
  check_config(question.training);
  return question;
}

/// Writes the advised case as an experiment, and the next best ones if more than one is asked for.
/// Returns the path.
std::string write_experiment(const Question& question, const Advice& advice,
                             const Arguments& arguments) {
  Experiment experiment(question.training);
  ExperimentConfig& common = experiment.common;
  const Considered& best = advice.ranked.front();
  common.compare = {};
  common.compare.schemes = {};
  common.compare.worlds = {best.candidate.world};
  if (!question.machine) {
    common.train.steps = 3;
    common.train.warmup = 1;
    common.compare.repeats = 1;
  }
  for (std::size_t i = 0; i < advice.ranked.size() && i < arguments.written; ++i)
    experiment.cases.push_back(case_of(question, advice.ranked[i].candidate));
  const std::filesystem::path folder = std::filesystem::path(arguments.results) / "advise";
  std::filesystem::create_directories(folder);
  const std::filesystem::path path = folder / (common.name + ".toml");
  write_whole(path, experiment_text(experiment, fmt::format("Advised by `ringside advise`: {}\n{}",
                                                            label_of(best.candidate),
                                                            reason_of(question, advice))));
  return path.string();
}

}  // namespace

int advise_command(const Arguments& arguments, const Process& process) {
  Question question;
  try {
    question = question_of(arguments);
    sim::require_simgrid();
  } catch (const std::exception& error) {
    return complain(wrong_input, error.what());
  }
  process.catch_interrupts();
  OutputStream errors(STDERR_FILENO, process.interrupted);
  const Simulate simulate = side_by_side(rank_start(process, errors), question.processes);
  const auto say = [&errors](const Considered& one) {
    errors << fmt::format("simulated: {} at world {}: {:.1f} samples/s", label_of(one.candidate),
                          one.candidate.world, one.samples_per_s)
           << std::endl;
  };
  try {
    const Advice advice = search(question, simulate, seconds_now, say);
    errors.finish();
    if (advice.interrupted) return complain(was_interrupted, "interrupted");
    OutputStream out(STDOUT_FILENO, process.interrupted);
    out << question_text(question) << "\n"
        << advice_text(question, advice, arguments.shown, arguments.explain);
    if (!advice.ranked.empty())
      out << "\nRun it: ringside compare " << write_experiment(question, advice, arguments) << "\n";
    return finish(out, advice.ranked.empty() ? run_failed : ok);
  } catch (const std::exception& error) {
    return complain(run_failed, error.what());
  }
}

}  // namespace ringside
