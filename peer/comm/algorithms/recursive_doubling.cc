// Recursive doubling, for an array of S bytes on p ranks, of which q is the largest power of two:
// in step k partners whose numbers differ in bit k exchange all they have, and both add it up
// (Thakur, Rabenseifner and Gropp 2005, section 4.1). An all-reduce costs log2 q steps, in each of
// which a rank sends S, and 2 steps more if p is no power of two: the fewest steps, for short
// arrays. It has no reduce-scatter and no all-gather of its own; those of halving-doubling take
// their place.
#include <utility>

#include "peer/comm/algorithms/algorithms.h"
#include "peer/comm/algorithms/fold.h"

namespace ringside::peer {
namespace {

void recursive_doubling_all_reduce(Exchange& exchange) {
  const Fold fold(exchange.size());
  const int rank = exchange.rank();
  const std::int64_t count = exchange.count(Array::in);
  const Elements array{Array::in, 0, count};
  if (fold.follows(rank)) {
    exchange.step({{rank - 1, array}}, {});
    return exchange.step({}, {{rank - 1, array}});
  }
  if (fold.leads_a_pair(rank)) exchange.step({}, {{rank + 1, array, array}});
  // A partner still reads what this rank has while the sum is written, so the sums alternate
  // between two arrays.
  Elements now = array, next{Array::scratch, 0, count};
  for (int distance = 1; distance < fold.players; distance *= 2) {
    const int partner = fold.leader(fold.player_of(rank) ^ distance);
    exchange.step({{partner, now}}, {{partner, next, now}});
    std::swap(now, next);
  }
  if (now.array == Array::scratch) exchange.copy(now, array);
  if (fold.leads_a_pair(rank)) exchange.step({{rank + 1, array}}, {});
}

std::vector<Sum> recursive_doubling_sums(Collective::Kind kind, std::int64_t count,
                                         const std::vector<int>& hosts) {
  if (kind == Collective::Kind::reduce_scatter)
    return halving_doubling_row().sums(kind, count, hosts);
  const Fold fold(static_cast<int>(hosts.size()));
  Sum all{0, count, {}};
  for (int pair = 0; pair < fold.pairs; ++pair) all.additions.push_back({2 * pair, 2 * pair + 1});
  for (int distance = 1; distance < fold.players; distance *= 2)
    for (int player = 0; player < fold.players; player += 2 * distance)
      all.additions.push_back({fold.leader(player), fold.leader(player + distance)});
  return {all};
}

std::int64_t recursive_doubling_scratch(std::int64_t count) { return count; }

}  // namespace

AlgorithmRow recursive_doubling_row() {
  const AlgorithmRow halving = halving_doubling_row();
  return {.algorithm = Algorithm::recursive_doubling,
          .summary = "partners exchange whole arrays, at distances 1, 2, 4 and so on",
          .all_reduce = recursive_doubling_all_reduce,
          .reduce_scatter = halving.reduce_scatter,
          .all_gather = halving.all_gather,
          .sums = recursive_doubling_sums,
          .scratch = recursive_doubling_scratch};
}

}  // namespace ringside::peer
