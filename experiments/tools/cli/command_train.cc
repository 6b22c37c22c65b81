// ringside train
#include <unistd.h>

#include <nlohmann/json.hpp>

#include "core/base/error.h"
#include "core/base/json_fields.h"
#include "core/base/seconds_now.h"
#include "core/base/shell_word.h"
#include "core/base/utf8.h"
#include "core/base/whole_file.h"
#include "experiments/runner/config/cases.h"
#include "experiments/runner/config/config.h"
#include "experiments/runner/plan/checks.h"
#include "experiments/runner/plan/planner.h"
#include "experiments/runner/registry/mpi_of.h"
#include "experiments/runner/report/report.h"
#include "experiments/runner/results/data_state.h"
#include "experiments/runner/results/folder_lock.h"
#include "experiments/runner/run/going_on.h"
#include "experiments/tools/cli/calibrated.h"
#include "experiments/tools/cli/command.h"
#include "experiments/tools/cli/experiment_arguments.h"
#include "experiments/tools/cli/job_start.h"
#include "experiments/tools/cli/output_files.h"

namespace ringside::tools::cli {
namespace {

struct TrainArguments {
  ExperimentArguments experiment;
  std::string scheme;
  int world = 1;
  std::string worlds = "1";
  std::string output, save;  // files
  bool fresh = false;
};

/// Throws Error if the data or weights have changed since `before`: the run may then have read
/// other files than the ones that were checked.
void check_unchanged(const runner::DataState& before, const RunPlan& plan) {
  const std::string changed = runner::first_change(before, runner::data_state(plan));
  if (changed.empty()) return;
  throw Error("{} changed while the run read it{}; do not change the files during a run", changed,
              plan.save.empty() ? "" : ", so the weights in " + plan.save + " are of no use");
}

/// The same run as a command that takes part in a job.
std::string as_comparison(const TrainArguments& arguments) {
  std::string out =
      fmt::format("ringside compare {} --schemes {} --worlds {}",
                  shell_word(arguments.experiment.file), arguments.scheme, arguments.world);
  for (const std::string& setting : arguments.experiment.settings)
    out += " --set " + shell_word(setting);
  return out;
}

/// Makes numbers of what --world says.
void read_worlds(TrainArguments& arguments) {
  const std::string& given = arguments.worlds;
  const auto range =
      runner::world_range(given.find(':') == std::string::npos ? "1:" + given : given);
  if (!range || range->second > runner::most_ranks)
    throw Error("--world {}: write a number of workers, or the fewest and the most, as 2:8", given);
  arguments.world = static_cast<int>(range->second);
  if (given.find(':') != std::string::npos)
    arguments.experiment.settings.push_back(fmt::format("faults.least_world={}", range->first));
}

std::string saved_text(const RunPlan& plan) {
  const DType dtype = parameter_dtype(plan.train);
  return fmt::format("weights: {}{}\n", plan.save,
                     dtype == DType::f32 ? ""
                                         : fmt::format(" ({}, in which the model computes; the "
                                                       "optimizer's fp32 copies are not saved)",
                                                       name_of(dtype)));
}

/// Makes the folder of the plan's checkpoints, if it has one, takes it for this process, and lets
/// the run go on from the newest checkpoint there.
void go_on_from_checkpoint(RunPlan& plan, bool fresh, runner::FolderLock& lock) {
  const std::string& path = plan.checkpoint.path;
  if (path.empty()) {
    if (fresh) throw Error("--fresh: the run has no checkpoint.path; leave it out");
    return;
  }
  std::error_code error;
  std::filesystem::create_directories(path, error);
  if (error) throw Error("checkpoint.path = '{}': {}", path, error.message());
  lock.take(path, {"folder of checkpoints", "run", "checkpoint.path"});
  if (!fresh) plan.resume = runner::newest_checkpoint(plan);
  if (!plan.resume.empty()) runner::check_same_run(plan, plan.resume);
}

/// Makes one run on this host; refuses to be one of several processes of a launcher.
int train(const TrainArguments& arguments, const Process& process) {
  runner::ExperimentConfig config;
  RunPlan plan;
  std::vector<MeasuredSpeeds> speeds;
  runner::DataState data;
  OutputFile output;
  runner::FolderLock lock;
  try {
    check_alone(
        "train",
        fmt::format("start `{}` with it, which is one job of all processes, or start train without "
                    "the launcher",
                    as_comparison(arguments)),
        process);
    config =
        runner::read_experiment(arguments.experiment.file, arguments.experiment.settings).common;
    plan = runner::plan_training(config, arguments.scheme, arguments.world);
    if (balances_by_measured_time({plan})) {
      config.calibrated = calibrated_machine(
          {plan}, "results", "Stages are even by operations, not by measured times");
      plan = runner::plan_training(config, arguments.scheme, arguments.world);
    }
    plan.save = arguments.save;
    runner::check_inputs(plan);
    runner::check_libraries({plan});
    if (!plan.cluster) check_readable(process);
    data = runner::data_state(plan);
    go_on_from_checkpoint(plan, arguments.fresh, lock);
    output = check_output("--output", arguments.output);
    if (!arguments.save.empty() && !computes(plan))
      throw Error("--save: the run computes no weights; set sim.numerics = true");
    if (!arguments.save.empty() && plan.program)
      throw Error("--save: another program runs the ranks of scheme {}, and writes no weights",
                  plan.scheme);
    const OutputFile save = check_output("--save", arguments.save);
    check_outputs_apart({output, save}, arguments.experiment.file, plan);
    plan.save = save.path.string();
    if (!is_utf8(plan.save))
      throw Error("--save {}: the path is not UTF-8; choose a path that is", plan.save);
  } catch (const std::exception& error) {
    return complain(wrong_input, error.what());
  }
  process.catch_interrupts();
  try {
    if (!measure_missing_speeds({plan}, static_cast<int>(config.compare.attempts), process, {},
                                speeds))
      return complain(was_interrupted, "interrupted");
    if (!speeds.empty()) {
      RunPlan with_shares =
          runner::plan_training(config, arguments.scheme, arguments.world, speeds);
      with_shares.save = plan.save;
      with_shares.resume = plan.resume;
      plan = std::move(with_shares);
      say_shares({plan}, process);
    }
  } catch (const std::exception& error) {
    return complain(run_failed, error.what());
  }
  OutputStream out(STDOUT_FILENO, process.interrupted);
  OutputStream errors(STDERR_FILENO, process.interrupted);
  for (const std::string& line : runner::lines_about(data)) errors << line << "\n";
  if (!plan.resume.empty()) out << "going on from checkpoint " << plan.resume << std::endl;
  double last_line = 0;
  const runner::RunOutcome outcome =
      runner::run_plan(plan, rank_start(process, errors), [&](const runner::Step& step) {
        const double now = seconds_now();
        const bool in_between = step.steps_done > 1 && step.steps_done < plan.train.steps;
        if (in_between && !step.held_out && now - last_line < 1) return;
        last_line = now;
        out << fmt::format("step {:>{}}/{}{}  {:.1f} samples/s{}", step.steps_done,
                           std::to_string(plan.train.steps).size(), plan.train.steps,
                           computes(plan) ? fmt::format("  loss {:.4f}", step.loss) : "",
                           static_cast<double>(plan.train.global_batch) / step.seconds,
                           step.held_out
                               ? fmt::format("  held-out loss {:.4f}, accuracy {:.2f}%",
                                             step.held_out->loss, 100 * step.held_out->accuracy)
                               : "")
            << std::endl;
      });
  errors.finish();
  if (!plan.save.empty()) remove_abandoned_drafts(plan.save);
  if (outcome.stopped) {
    out << fmt::format("to be continued: checkpoint {}; the same command goes on from there\n",
                       runner::newest_checkpoint(plan));
    return finish(out, process.told_to_stop() ? ok : was_interrupted);
  }
  if (outcome.interrupted) return complain(was_interrupted, "interrupted");
  if (outcome.row.status != "ok") {
    out.finish();
    return complain(run_failed, outcome.row.error);
  }
  try {
    check_unchanged(data, plan);
  } catch (const std::exception& error) {
    out.finish();
    return complain(run_failed, error.what());
  }
  out << "\n" << runner::row_text(outcome.row);
  if (!plan.save.empty()) out << saved_text(plan);
  if (!output.path.empty()) {
    nlohmann::ordered_json written = {{"environment", environment_of(process, {plan})},
                                      {"row", to_json(outcome.row)}};
    for (const MeasuredSpeeds& one : speeds) written["speeds"].push_back(to_json(one));
    write_whole(output.path, written.dump(2) + "\n");
  }
  return finish(out, ok);
}

}  // namespace

Execute train_command(CommandOptions& options) {
  options.summary("run one scheme once, and print its loss as it goes");
  options.uses_cores();
  const auto arguments = std::make_shared<TrainArguments>();
  add_experiment(options, arguments->experiment);
  options.add("--scheme", arguments->scheme, "the scheme to run (see `ringside list`)")
      .type("NAME")
      .required();
  options
      .add("--world", arguments->worlds,
           "number of workers; '2:8': at first 8, and at least 2 (faults.least_world)")
      .type("N")
      .shows_default();
  options
      .add("--output", arguments->output,
           "write a JSON file with the run's figures and its environment")
      .type("FILE");
  options
      .add("--save", arguments->save,
           "write the trained weights to a safetensors file, which train.initial_weights can read; "
           "tensors have the names that Hugging Face or torchvision gives them, if either has the "
           "model")
      .type("FILE");
  options.flag("--fresh", arguments->fresh,
               "remove the checkpoints in checkpoint.path, and begin anew");
  return [arguments](const Process& process) {
    try {
      read_worlds(*arguments);
    } catch (const Error& error) {
      return complain(wrong_input, error.what());
    }
    return train(*arguments, process);
  };
}

}  // namespace ringside::tools::cli
