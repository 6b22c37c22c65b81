// Stochastic gradient push: gossip over directed graphs, with the weights of push-sum.
#pragma once

#include <memory>

#include "core/base/fields.h"
#include "core/scheme/scheme_info.h"
#include "peer/schemes/consensus_distance.h"
#include "peer/schemes/gossip_graph.h"
#include "peer/schemes/local_rule.h"

namespace ringside::peer {

struct SgpOptions {
  Graph graph = Graph::one_peer;
  std::int64_t overlap = 0;
  DistanceOptions distance{};
};

Fields fields_of(SgpOptions& options);

/// SGP (Assran et al., ICML 2019, algorithm 1). Worker i holds values x_i and a weight w_i, 1 at
/// first, and computes gradients at z_i = x_i / w_i. In every step it adds to x_i the update that
/// its optimizer makes at z_i, sends p_i (x_i, w_i) to the d_i workers that take of it, keeps p_i
/// (x_i, w_i), with p_i = 1 / (d_i + 1), and adds what it takes. The weights of all workers sum to
/// N. Where every worker sends and takes equally many they stay 1, and this is dpsgd without
/// overlap on the same graph; on a star they do not.
///
/// With `overlap` > 0 it is overlap SGP (algorithm 2): once in so many steps workers send, and
/// train on for as many steps before they add what comes. Weights below 1 tell what is on its way.
///
/// A worker with d targets sends d * (4 bytes a parameter + 4) once in max(1, overlap) steps. It
/// holds x and z besides its replica (8 bytes a parameter), and d + 1 messages.
///
/// Reports the figure "push-sum weight", the weight after the last step, whose mean over workers is
/// 1. The optimizer's weight decay is that of z.
SchemeInfo sgp_info();

/// The rule alone, for tests. The last element of a message is the weight.
std::unique_ptr<LocalRule> make_sgp_rule(const RuleContext& context, const SgpOptions& options);

}  // namespace ringside::peer
