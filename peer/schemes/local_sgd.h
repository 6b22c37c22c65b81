// Local SGD: every worker trains a replica, and the replicas are averaged every few steps.
#pragma once

#include "core/base/fields.h"
#include "core/scheme/scheme_info.h"

namespace ringside::peer {

struct LocalSgdOptions {
  std::int64_t sync_every = 4;
  std::int64_t start_step = 0;
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
/// In each averaging over N workers, a worker sends 2 * (N - 1) / N times the bytes of the
/// parameters in fp32, and computes nothing meanwhile.
///
/// With `distance` the scheme reports the figure "consensus distance"
/// (peer/schemes/consensus_distance.h) over all averagings: of the replicas as they were before
/// they took the mean.
SchemeInfo local_sgd_info();

}  // namespace ringside::peer
