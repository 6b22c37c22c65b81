// Decoupled DiLoCo: servers that merge the pushes of a quorum of workers.
#pragma once

#include "ps/schemes/outer_worker.h"

namespace ringside::ps {

struct DecoupledDilocoOptions {
  OuterOptions outer{};
  std::int64_t quorum = 0;  // at most all workers; 0: more than half of them
  double grace_ms = 10;
  bool token_weights = true;
  LocalServers servers{};
};

Fields fields_of(DecoupledDilocoOptions& options);
/// Throws Error for option values that are not allowed, and for a plan that they do not go with.
void check(const DecoupledDilocoOptions& options, const RunPlan& plan);

/// DiLoCo whose servers wait for a quorum of workers alone (the syncer of Decoupled DiLoCo, 2026,
/// arXiv 2604.21428). A worker takes `sync_every` local steps with an optimizer of its own (the
/// inner one, [optimizer]), pushes the difference d from the values x that it began with, and waits
/// until its push has been merged. The server of the first range of x decides whom a merge takes:
/// once pushes of `quorum` workers have come it waits `grace_ms` longer, or until every worker has
/// pushed, and takes all that have come, w of each; a later one is part of the next merge, whatever
/// x it began with. All other ranges merge the same workers (ps/protocol/merges.h). With the mean
/// of the merged d by weight as gradient, SGD with Nesterov's momentum (the outer optimizer)
/// updates x, from which these workers go on.
///
/// The weight of a push is its number of tokens (or samples). That is also the share of the paper's
/// weight, tokens squared by steps, since all workers have equally many tokens in a step. In the
/// paper a worker trains on while its push is merged; here it waits.
///
/// With parameters of P bytes in fp32, N workers and S servers, in each exchange a worker sends P
/// bytes, and a server P / S bytes to every worker. A server holds x, the momentum and the sum of a
/// merge: 12 bytes a parameter.
SchemeInfo decoupled_diloco_info();

/// The rules of its servers, as a test tries them: a merge takes pushes of `quorum` workers, and
/// those that come within `grace_s` seconds after the last of these.
std::shared_ptr<const Policy> make_quorum_policy(int quorum, double grace_s);

}  // namespace ringside::ps
