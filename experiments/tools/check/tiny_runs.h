// Small runs of any scheme, with ranks as threads of this process.
#pragma once

#include <ostream>
#include <string>

#include "core/observe/run_record.h"
#include "core/scheme/scheme_info.h"
#include "experiments/runner/config/config.h"
#include "experiments/tools/check/violations.h"

namespace ringside::tools::check {

/// A scheme with its default options, or with others that it is tried with.
struct TriedScheme {
  const SchemeInfo* info;
  const TriedOptions* tried = nullptr;  // null: the defaults

  const Options& options() const { return tried ? tried->options : info->defaults; }
  Promise promise() const { return info->promise(options()); }
  /// "ddp", "ddp_topk"
  std::string name() const;
  friend std::ostream& operator<<(std::ostream& out, const TriedScheme& one) {
    return out << one.name();
  }
};

/// Five steps of a small model on the file `text`, with a global batch that worlds 1 to 4 divide,
/// with two micro-batches a rank too.
runner::ExperimentConfig tiny(const std::string& model, const std::string& text);
/// The same with the smallest model that has batch norms, on images that the program makes.
runner::ExperimentConfig tiny_resnet(const std::string& text);
/// Whether this build has device "sim".
bool can_simulate();
/// The experiment on the devices of a small simulated cluster, which computes values.
runner::ExperimentConfig simulated(runner::ExperimentConfig config, int devices);

/// Makes the run of a plan; its ranks are threads, or actors of a simulated world. The scheme is
/// `scheme`, or, if that is null, the one of the registry that the plan names. Blocks.
RunRecord run(const RunPlan& plan, const SchemeInfo* scheme = nullptr);
/// The row of `single` over the micro-batches of all ranks of a run.
RunRecord reference_of(runner::ExperimentConfig config, int world);
/// The row of the definition of a scheme's run: the definition that the scheme brings or, if it has
/// none for this run, `single` over the micro-batches of all ranks.
RunRecord definition_of(const runner::ExperimentConfig& config, const std::string& scheme,
                        int world);

/// The plan of the replay of a run (Promise::replayed).
RunPlan replay_plan_of(const RunRecord& row);

/// A scheme at one world.
struct CheckedScheme {
  TriedScheme scheme;
  int world = 1;

  /// Whether the scheme promises the training run of `single`.
  bool exact() const { return scheme.promise() == Promise::same_run; }
  /// The number of replicas that have parameters of their own.
  std::size_t replicas() const;
  /// The run of the configuration, with the options of this scheme unless the configuration has
  /// some for it, and with the scheme's optimizer if it trains with one alone.
  RunPlan plan_of(runner::ExperimentConfig config) const;
  RunRecord run_of(const runner::ExperimentConfig& config) const;
  RunRecord definition(const runner::ExperimentConfig& config) const;
  /// The row of what `row`, a run of the configuration, must equal: its definition, or its replay.
  RunRecord definition(const runner::ExperimentConfig& config, const RunRecord& row) const;
  /// Whether runs are proven by replaying what they recorded.
  bool replayed() const { return scheme.promise() == Promise::replayed; }
  /// Where the run of the configuration differs from its definition.
  Violations against_definition(const runner::ExperimentConfig& config) const;

 private:
  runner::ExperimentConfig with_options(runner::ExperimentConfig config) const;
};

}  // namespace ringside::tools::check
