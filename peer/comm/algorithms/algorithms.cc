#include "peer/comm/algorithms/algorithms.h"

#include <algorithm>

#include "peer/comm/algorithms/team.h"

namespace ringside::peer {
namespace {

/// The places of the ranks are counted from the root. In step k every rank that has the array sends
/// it 2^k places further.
void broadcast(Exchange& exchange, int root) {
  const int size = exchange.size(), place = (exchange.rank() - root + size) % size;
  const Elements array{Array::in, 0, exchange.count(Array::in)};
  for (int distance = 1; distance < size; distance *= 2) {
    if (place < distance && place + distance < size)
      exchange.step({{(place + distance + root) % size, array}}, {});
    else if (place >= distance && place < 2 * distance)
      exchange.step({}, {{(place - distance + root) % size, array}});
  }
}

void all_to_all(Exchange& exchange) {
  const int size = exchange.size();
  const Team team = everyone(exchange);
  const std::int64_t n = exchange.count(Array::in) / size;
  exchange.copy({Array::in, team.place * n, n}, {Array::out, team.place * n, n});
  for (int round = 1; round < size; ++round) {
    const int to = team.after(round), from = team.after(-round);
    exchange.step({{to, {Array::in, to * n, n}}}, {{from, {Array::out, from * n, n}}});
  }
}

/// Hensgen, Finkel and Manber 1988: after step k a rank knows that 2^(k+1) ranks have arrived.
void barrier(Exchange& exchange) {
  const Team team = everyone(exchange);
  for (int distance = 1; distance < team.size(); distance *= 2)
    exchange.step({{team.after(distance), {}}}, {{team.after(-distance), {}}});
}

}  // namespace

const std::vector<AlgorithmRow>& algorithm_rows() {
  static const std::vector<AlgorithmRow> rows = {
      ring_row(),         tree_row(), recursive_doubling_row(), halving_doubling_row(),
      hierarchical_row(), naive_row()};
  return rows;
}

const AlgorithmRow& find_algorithm(Algorithm algorithm) {
  return *std::find_if(algorithm_rows().begin(), algorithm_rows().end(),
                       [&](const AlgorithmRow& row) { return row.algorithm == algorithm; });
}

void run_algorithm(const AlgorithmRow& row, const Collective& call, Exchange& exchange) {
  switch (call.kind) {
    case Collective::Kind::all_reduce:
      return row.all_reduce(exchange);
    case Collective::Kind::reduce_scatter:
      return row.reduce_scatter(exchange);
    case Collective::Kind::all_gather:
      return row.all_gather(exchange);
    case Collective::Kind::broadcast:
      return broadcast(exchange, call.root);
    case Collective::Kind::all_to_all:
      return all_to_all(exchange);
    case Collective::Kind::barrier:
    case Collective::Kind::split:
    case Collective::Kind::expose:
    case Collective::Kind::share:
      return barrier(exchange);
  }
}

std::int64_t scratch_of(const AlgorithmRow& row, Collective::Kind kind, std::int64_t count) {
  return kind == Collective::Kind::all_reduce && row.scratch ? row.scratch(count) : 0;
}

}  // namespace ringside::peer
