// Local SGD: every worker trains a replica, and the replicas are averaged every few steps.
#pragma once

#include <memory>

#include "core/base/fields.h"
#include "core/scheme/scheme_info.h"
#include "peer/schemes/local_rule.h"

namespace ringside::peer {

struct LocalSgdOptions {
  std::int64_t sync_every = 4;
  std::int64_t start_step = 0;
  std::int64_t group = 1;
  std::int64_t group_every = 1;
  bool average_moments = false;
  bool distance = false;
};

Fields fields_of(LocalSgdOptions& options);

/// Local SGD (Stich, ICLR 2019, algorithm 1): every worker updates its own replica with the mean
/// gradient of its own samples. After every `sync_every` steps, and after the last step, each
/// replica becomes the mean of all replicas. The moments of each optimizer stay its own. With plain
/// SGD and sync_every = 1 the losses are those of `single`, up to rounding.
///
/// With `start_step` it is post-local SGD (Lin et al., ICLR 2020): until so many steps are done,
/// replicas are averaged after every step.
///
/// With `group` it is hierarchical local SGD (the same paper): after every `group_every`
/// steps without an averaging of all, each replica becomes the mean of the replicas of its group of
/// `group` consecutive workers; the last group may be smaller. 0 stands for the workers of a host,
/// or of a simulated machine, of which each must have equally many (the last may have fewer); plans
/// have the number in its place (SchemeInfo::settle).
///
/// With `average_moments` the moments of the optimizers are averaged wherever replicas are.
///
/// In each averaging over N workers (all, or those of a group), a worker sends 2 * (N - 1) / N
/// times the bytes of the parameters in fp32, and of as many moments as are averaged, and computes
/// nothing meanwhile.
///
/// With `distance` the scheme reports the figure "consensus distance"
/// (peer/schemes/consensus_distance.h) over all averagings of all replicas: of the replicas as they
/// were before they took the mean.
SchemeInfo local_sgd_info();

/// The rule alone, for tests.
std::unique_ptr<LocalRule> make_local_sgd_rule(const RuleContext& context,
                                               const LocalSgdOptions& options);

}  // namespace ringside::peer
