// D-PSGD: replicas that every worker mixes with those of its neighbours in a graph.
#pragma once

#include <vector>

#include "core/base/fields.h"
#include "core/base/named_enum.h"
#include "core/scheme/scheme_info.h"

namespace ringside::peer {

/// The graph whose edges messages take. Every worker takes equally many, so that the mean of a
/// worker's own values and its neighbours', all with equal weights, is doubly stochastic mixing.
enum class Graph : std::uint8_t {
  ring,         // the worker before and the one after
  torus,        // those before and after, in each of two dimensions that are as equal as possible
  exponential,  // those 1, 2, 4, ... before; directed
  one_peer,     // one of these in each step, in turn
  complete      // all
};
inline constexpr std::string_view graph_names[] = {"ring", "torus", "exponential", "one_peer",
                                                   "complete"};
constexpr EnumNames names_of(Graph) { return graph_names; }

/// The workers whose messages `worker` takes of what is given after `done` steps, in ascending
/// order.
std::vector<int> sources_in(Graph graph, int worker, int workers, std::int64_t done);

struct DpsgdOptions {
  Graph graph = Graph::ring;
  bool overlap = true;
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
/// With graph one_peer and without `overlap` this is SGP (Assran et al., ICML 2019, algorithm 1)
/// with its usual graph, whose mixing is doubly stochastic: the weight that push-sum divides by is
/// 1 throughout, so it is not sent.
///
/// A worker with d neighbours sends d times the bytes of the parameters in fp32 in every step, and
/// holds d + 1 messages.
SchemeInfo dpsgd_info();

}  // namespace ringside::peer
