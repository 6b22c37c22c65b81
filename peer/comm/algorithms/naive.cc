// Naive, for an array of S bytes on p ranks: rank 0 adds up the arrays of all ranks, one after the
// other in rank order, and sends the result to all, as a classic master does. An all-reduce costs p
// steps; rank 0 receives (p-1) * S, and sends as much at once.
#include "peer/comm/algorithms/algorithms.h"
#include "peer/comm/algorithms/team.h"

namespace ringside::peer {
namespace {

constexpr int root = 0;

/// Adds up the arrays `in` of all ranks in that of the root.
void reduce(Exchange& exchange) {
  const Elements whole{Array::in, 0, exchange.count(Array::in)};
  if (exchange.rank() != root) return exchange.step({{root, whole}}, {});
  for (int r = 1; r < exchange.size(); ++r) exchange.step({}, {{r, whole, whole}});
}

/// Sends the root's array to all other ranks.
void spread(Exchange& exchange, Array array) {
  const Elements whole{array, 0, exchange.count(array)};
  if (exchange.rank() != root) return exchange.step({}, {{root, whole}});
  std::vector<Sending> sends;
  for (int r = 1; r < exchange.size(); ++r) sends.push_back({r, whole});
  exchange.step(sends, {});
}

void naive_all_reduce(Exchange& exchange) {
  reduce(exchange);
  spread(exchange, Array::in);
}

/// The root sends every rank its part of the sum.
void naive_reduce_scatter(Exchange& exchange) {
  const auto parts = equal_parts(Array::in, exchange.count(Array::in), exchange.size());
  const Elements own{Array::out, 0, exchange.count(Array::out)};
  reduce(exchange);
  if (exchange.rank() != root) return exchange.step({}, {{root, own}});
  std::vector<Sending> sends;
  for (int r = 1; r < exchange.size(); ++r)
    sends.push_back({r, parts[static_cast<std::size_t>(r)][0]});
  exchange.step(sends, {});
  exchange.copy(parts[0][0], own);
}

void naive_all_gather(Exchange& exchange) {
  const auto parts = equal_parts(Array::out, exchange.count(Array::out), exchange.size());
  const Elements own{Array::in, 0, exchange.count(Array::in)};
  if (exchange.rank() == root) {
    std::vector<Receiving> receives;
    for (int r = 1; r < exchange.size(); ++r)
      receives.push_back({r, parts[static_cast<std::size_t>(r)][0]});
    exchange.copy(own, parts[0][0]);
    exchange.step({}, receives);
  } else {
    exchange.step({{root, own}}, {});
  }
  spread(exchange, Array::out);
}

std::vector<Sum> naive_sums(Collective::Kind, std::int64_t count, const std::vector<int>& hosts) {
  return {in_rank_order(count, static_cast<int>(hosts.size()))};
}

}  // namespace

AlgorithmRow naive_row() {
  return {.algorithm = Algorithm::naive,
          .summary = "everything through rank 0, as a classic master",
          .all_reduce = naive_all_reduce,
          .reduce_scatter = naive_reduce_scatter,
          .all_gather = naive_all_gather,
          .sums = naive_sums};
}

}  // namespace ringside::peer
