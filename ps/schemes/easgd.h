// Elastic averaging: the workers and the definition of `ps` with consistency "easgd".
#pragma once

#include <memory>

#include "ps/schemes/ps.h"

namespace ringside::ps {

/// Asynchronous EASGD (Zhang, Choromanska and LeCun, NIPS 2015). Every worker trains a replica with
/// an optimizer of its own. After every `communication_period` of its own steps it sends its values
/// x to the servers, which hold the centre c, range by range: with d = x - c and the moving rate a,
/// c += a * d and x -= a * d. (In the paper the gradient of the step is still that of the values
/// before the exchange.) A worker waits only for its own replies, each unit for those of the unit.
/// The centre starts as the initial values. The run evaluates the centre, and ends with it; batch
/// norms are evaluated with the worker's own running statistics. A worker that evaluates, and
/// worker 0 at the end, need additional memory for the centre: as much as for the parameters, in
/// their dtype.
std::unique_ptr<SyncScheme> make_easgd(const RankContext& context, const PsOptions& options);

/// The definition: replays RunPlan::history with the replicas of all workers side by side.
std::unique_ptr<SyncScheme> define_easgd(const RankContext& context, const PsOptions& options);

}  // namespace ringside::ps
