// The reference scheme: one rank that does all the work.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "core/base/fields.h"
#include "core/comm/sums.h"
#include "core/scheme/scheme_info.h"
#include "core/scheme/whole_update.h"

namespace ringside {

struct SingleOptions {
  std::int64_t replicas = 1;
};

Fields fields_of(SingleOptions& options);

/// Runs the micro-batches of all `replicas` one after the other. The number of micro-batches must
/// be a multiple of `replicas`; otherwise attach() throws Error.
std::unique_ptr<SyncScheme> make_single(const RankContext& context, const SingleOptions& options);

/// The definition of a scheme that makes one gradient of those of all workers in a way of its own:
/// one rank that computes the micro-batches of RunPlan::defines workers. It keeps a gradient of
/// each worker (or, with SumTree::each_micro_batch, of each micro-batch), and calls the function
/// that `make` returns before the update, once for each micro-batch or once for all. The function
/// gets the whole model's gradient of each worker, in reduce_dtype(), which it may overwrite, and
/// writes their sum to `total`, or adds it there unless it is the `first` of a step.
using SumOfWorkers =
    std::function<void(std::span<const Tensor> gradients, const Tensor& total, bool first)>;
std::unique_ptr<SyncScheme> define_sum(const RankContext& context,
                                       std::function<SumOfWorkers(const Model& model)> make);

/// The same for a scheme whose step is its own too: the function gets the gradients of all workers,
/// of one micro-batch or of several added up, and returns what SyncScheme::step() does. `update`
/// has the parameters, the optimizer, and room for a sum of gradients in its ranges; it outlives
/// the function.
using StepOfWorkers = std::function<bool(std::span<const Tensor> gradients, const StepInfo& info)>;
std::unique_ptr<SyncScheme> define_step(
    const RankContext& context,
    std::function<StepOfWorkers(const Model& model, WholeUpdate& update)> make);

/// The sums by which a scheme adds up gradients over workers. Together they cover all parameters of
/// the model.
using SumsOfModel = std::function<std::vector<Sum>(const Model& model)>;

/// define_sum() for a scheme that computes the same run as `single` but adds gradients up in an
/// order of its own: as `sums` says.
std::unique_ptr<SyncScheme> define_in_order(const RankContext& context, SumsOfModel sums);

/// The scheme's info, for the registry.
SchemeInfo single_info();

}  // namespace ringside
