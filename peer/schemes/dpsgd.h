// D-PSGD: replicas that every worker mixes with those of its neighbours in a graph.
#pragma once

#include <memory>

#include "core/base/fields.h"
#include "core/scheme/scheme_info.h"
#include "peer/schemes/consensus_distance.h"
#include "peer/schemes/gossip_graph.h"
#include "peer/schemes/local_rule.h"

namespace ringside::peer {

struct DpsgdOptions {
  Graph graph = Graph::ring;
  bool overlap = true;
  DistanceOptions distance{};
};

Fields fields_of(DpsgdOptions& options);

/// D-PSGD (Lian et al., NeurIPS 2017, algorithm 1). In every step worker i moves its replica to
/// sum_j W_ij x_j + u_i, where x_j are the replicas before the step, W mixes neighbours, and u_i is
/// the update that worker i's own optimizer makes of its gradient at x_i. So messages move while
/// the step is computed.
///
/// Without `overlap` the update comes first: sum_j W_ij (x_j + u_j). On a complete graph this is
/// averaging after every step, which the order of the paper is not.
///
/// On graphs whose workers send unequal numbers of messages, the mixing needs weights of its own:
/// those are left to sgp (peer/schemes/sgp.h).
///
/// A worker with d neighbours sends d times the bytes of the parameters in fp32 in every step, and
/// holds d + 1 messages.
SchemeInfo dpsgd_info();

/// The rule alone, for tests.
std::unique_ptr<LocalRule> make_dpsgd_rule(const RuleContext& context, const DpsgdOptions& options);

}  // namespace ringside::peer
