// The graphs by which gossiping workers send messages.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "core/base/named_enum.h"

namespace ringside::peer {

/// The graph whose edges messages take. In all but star every worker sends and takes equally many,
/// so that the mean of a worker's own values and those that it takes, all with equal weights, is
/// doubly stochastic mixing.
enum class Graph : std::uint8_t {
  ring,         // the worker before and the one after
  torus,        // those before and after, in each of two dimensions that are as equal as possible
  exponential,  // those 1, 2, 4, ... before; directed
  one_peer,     // one of these in each step, in turn
  complete,     // all
  star          // worker 0 of all, all of worker 0
};
inline constexpr std::string_view graph_names[] = {"ring",     "torus",    "exponential",
                                                   "one_peer", "complete", "star"};
constexpr EnumNames names_of(Graph) { return graph_names; }

/// The workers whose messages `worker` takes of what is given after `done` steps, in ascending
/// order.
std::vector<int> sources_in(Graph graph, int worker, int workers, std::int64_t done);

/// The number of workers that take a message of `worker`, which is the same in every step.
int out_degree(Graph graph, int worker, int workers);
/// The largest of them.
int largest_out_degree(Graph graph, int workers);

}  // namespace ringside::peer
