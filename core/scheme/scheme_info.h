// SchemeInfo: all that the planner and the ranks of a run know of a scheme.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/observe/rank_record.h"
#include "core/scheme/identity.h"
#include "core/scheme/scheme.h"
#include "core/scheme/scheme_facts.h"
#include "core/scheme/step_shape.h"

namespace ringside {

struct SchemeInfo {
  std::string_view name;
  std::string_view former_name{};  // under which older results have the scheme; empty: none
  std::string_view summary;
  /// The scheme's own options with their defaults. `check`, and the functions below, take options
  /// of this type; `check` throws Error for a bad value.
  Options defaults;
  /// Replaces values of options that stand for what the plan decides, before `check`: `hosts` has
  /// the host of each worker (core/plan/host_workers.h). Throws Error if they have no meaning
  /// there. Null for schemes without such values.
  std::function<void(Options&, const std::vector<int>& hosts)> settle;
  /// Throws Error for a bad value of an option, and for a plan with which the scheme cannot do what
  /// it promises. Called before the plan has ranks.
  std::function<void(const Options&, const RunPlan&)> check;
  /// An option, as "scheme.diloco.num_fragments = 2", with which workers have to have the whole
  /// model, and no stages of a pipeline; empty: none. Null: there is no such option.
  std::function<std::string(const Options&, const RunPlan&)> needs_whole_model{};
  std::function<Servers(const Options&, int world)> servers;
  /// The promise of a run with these options; reports give a speed-up for the same run alone.
  std::function<Promise(const Options&)> promise;
  SchemeTopology topology = SchemeTopology::peers;
  /// The largest number of workers; 0 if any number will do.
  int max_world = 0;
  /// The state of its workers that the scheme can offload to the host (train.offload).
  Offload offloads = Offload::none;
  /// Whether step() updates parameters by one optimizer (worker_optimizer()) and nothing else, so
  /// that an update can be put right later (SyncScheme::amend; pipeline.post_validation).
  bool amends = false;
  /// Whether train.reduce = "auto" means "every": the scheme sums over ranks after every
  /// micro-batch. With several micro-batches and ranks this adds the gradients up in another order
  /// than if each rank added up its own gradients first.
  bool reduces_each_micro_batch = false;
  /// Whether the scheme knows train.reduce_precision.
  bool converts_gradients = false;
  std::function<std::unique_ptr<SyncScheme>(const RankContext&, const Options&)> make;
  /// Of a scheme whose ranks another program runs: that program, and how the environment of each
  /// rank's process differs from the launcher's (RankPlan::environment). Such a scheme has no
  /// `make`. `program` throws Error for files of the user's that are missing or unfit. Null for
  /// schemes of our own.
  std::function<OtherProgram(const Options&)> program;
  std::function<std::vector<std::string>(const RunPlan&)> environment;
  /// The options that are paths with these values. An experiment gives them relative to its folder,
  /// and tables show the last part alone. Null for schemes without such options.
  std::function<std::vector<std::string*>(Options&)> paths;
  /// The order in which a run of the plan that promises the same run as `single` adds gradients up:
  /// if that is an order of its own, `define` adds them up in the same order. Called for plans that
  /// are complete but for their ranks.
  std::function<SumOrder(const Options&, const RunPlan&)> order;
  /// Makes the definition of a scheme that has an algorithm, or an order of sums, of its own. One
  /// rank runs the definition in place of RunPlan::defines workers. With Promise::replayed it
  /// repeats RunPlan::history. Null for schemes whose definition is always `single`.
  std::function<std::unique_ptr<SyncScheme>(const RankContext&, const Options&)> define;
  /// Whether workers train replicas of their own (core/scheme/local_replicas.h), whose parameters
  /// differ. Otherwise all workers begin every step with the same parameters.
  bool own_replicas = false;
  /// The one optimizer.kind with which the scheme trains; empty: any. Such a scheme clips no
  /// gradients.
  std::string_view optimizer{};
  std::vector<TriedOptions> tried;
  std::vector<Identity> identities;
  /// Whether a plug-in brought the scheme, which no test of this program has tried.
  bool of_plugin = false;
  /// Whether a run with these options can go on from a checkpoint: its workers, and its servers if
  /// it has any, show all of their state (SyncScheme::visit_state; core/train/checkpoint_part.h).
  /// Null: it cannot.
  std::function<bool(const Options&)> resumes;
  /// With replicas of their own: the number of steps from one after which all of them hold the same
  /// model to the next, so that they may be another number from there on. Null: never.
  std::function<std::int64_t(const Options&)> meets_every;
  /// The number of workers that a run can lose and still go on.
  std::function<int(const Options&, int world)> expendable;
  /// Whether a new process may take the seat of a worker that has gone (core/plan/worlds.h). Null:
  /// none may.
  std::function<bool(const Options&)> seats_are_taken_again;
  /// Runs a server rank; blocks until its workers are done. Null for schemes without servers.
  std::function<RankRecord(const RankContext&, const Options&, Model&, const Loader&)> serve;
  /// The fewest bytes that the busiest rank must send in a step.
  std::function<double(const Options&, const StepShape&)> minimum_bytes;
  /// How the scheme divides the state of the model among its workers. Null for schemes of which the
  /// ZeRO paper says nothing.
  std::function<StateDivision(const Options&, int world)> divides;
};

/// The promise of a run of the scheme with its default options.
inline Promise default_promise(const SchemeInfo& info) { return info.promise(info.defaults); }

}  // namespace ringside
