// Halving-doubling, for an array of S bytes on p ranks, of which q is the largest power of two
// (Rabenseifner 2004; Thakur, Rabenseifner and Gropp 2005, sections 3.3 and 4.4). Reduce-scatter:
// partners at distance q/2, q/4, ... 1 exchange one half each of what they still sum up.
// All-gather: partners at distance 1, 2, ... q/2 exchange all that they have. Each costs log2 q
// steps and sends S * (q-1)/q. If p is no power of two, a rank that follows another one sends that
// rank S first, and gets its result from it: 2 steps more for an all-reduce.
#include "peer/comm/algorithms/algorithms.h"
#include "peer/comm/algorithms/fold.h"
#include "peer/comm/algorithms/team.h"

namespace ringside::peer {
namespace {

void scatter(Exchange& exchange, const Fold& fold, const Segments& segments) {
  const int player = fold.player_of(exchange.rank());
  for (int distance = fold.players / 2; distance > 0; distance /= 2) {
    const int partner = player ^ distance;
    const Elements kept = segments.of_players(player / distance * distance, distance);
    const Elements given = segments.of_players(partner / distance * distance, distance);
    exchange.step({{fold.leader(partner), given}}, {{fold.leader(partner), kept, kept}});
  }
}

void gather(Exchange& exchange, const Fold& fold, const Segments& segments) {
  const int player = fold.player_of(exchange.rank());
  for (int distance = 1; distance < fold.players; distance *= 2) {
    const int partner = player ^ distance;
    const Elements own = segments.of_players(player / distance * distance, distance);
    const Elements other = segments.of_players(partner / distance * distance, distance);
    exchange.step({{fold.leader(partner), own}}, {{fold.leader(partner), other}});
  }
}

void halving_doubling_all_reduce(Exchange& exchange) {
  const Fold fold(exchange.size());
  const int rank = exchange.rank();
  const Elements whole{Array::in, 0, exchange.count(Array::in)};
  if (fold.follows(rank)) {
    exchange.step({{rank - 1, whole}}, {});
    return exchange.step({}, {{rank - 1, whole}});
  }
  if (fold.leads_a_pair(rank)) exchange.step({}, {{rank + 1, whole, whole}});
  const auto chunks = divide(whole, exchange.size());
  const Segments segments(fold, chunks);
  scatter(exchange, fold, segments);
  gather(exchange, fold, segments);
  if (fold.leads_a_pair(rank)) exchange.step({{rank + 1, whole}}, {});
}

void halving_doubling_reduce_scatter(Exchange& exchange) {
  const Fold fold(exchange.size());
  const int rank = exchange.rank();
  const Elements whole{Array::in, 0, exchange.count(Array::in)};
  const Elements own{Array::out, 0, exchange.count(Array::out)};
  if (fold.follows(rank)) {
    exchange.step({{rank - 1, whole}}, {});
    return exchange.step({}, {{rank - 1, own}});
  }
  if (fold.leads_a_pair(rank)) exchange.step({}, {{rank + 1, whole, whole}});
  const auto chunks = equal_parts(Array::in, whole.count, exchange.size());
  const Segments segments(fold, chunks);
  scatter(exchange, fold, segments);
  if (fold.leads_a_pair(rank)) exchange.step({{rank + 1, segments.of_rank(rank + 1)}}, {});
  exchange.copy(segments.of_rank(rank), own);
}

void halving_doubling_all_gather(Exchange& exchange) {
  const Fold fold(exchange.size());
  const int rank = exchange.rank();
  const Elements whole{Array::out, 0, exchange.count(Array::out)};
  const Elements own{Array::in, 0, exchange.count(Array::in)};
  if (fold.follows(rank)) {
    exchange.step({{rank - 1, own}}, {});
    return exchange.step({}, {{rank - 1, whole}});
  }
  const auto chunks = equal_parts(Array::out, whole.count, exchange.size());
  const Segments segments(fold, chunks);
  exchange.copy(own, segments.of_rank(rank));
  if (fold.leads_a_pair(rank)) exchange.step({}, {{rank + 1, segments.of_rank(rank + 1)}});
  gather(exchange, fold, segments);
  if (fold.leads_a_pair(rank)) exchange.step({{rank + 1, whole}}, {});
}

std::vector<Sum> halving_doubling_sums(Collective::Kind kind, std::int64_t count,
                                       const std::vector<int>& hosts) {
  const auto ranks = static_cast<int>(hosts.size());
  const Fold fold(ranks);
  const auto chunks = kind == Collective::Kind::all_reduce ? divide({Array::in, 0, count}, ranks)
                                                           : equal_parts(Array::in, count, ranks);
  const Segments segments(fold, chunks);
  std::vector<Sum> out;
  for (int owner = 0; owner < fold.players; ++owner) {
    const Elements segment = segments.of_players(owner, 1);
    Sum sum{segment.begin, segment.count, {}};
    for (int pair = 0; pair < fold.pairs; ++pair) sum.additions.push_back({2 * pair, 2 * pair + 1});
    for (int distance = fold.players / 2; distance > 0; distance /= 2)
      for (int low = 0; low < distance; ++low) {
        // Players that agree with the owner in all bits from `distance` on still sum up the
        // segment.
        const int player = owner / distance * distance + low;
        sum.additions.push_back({fold.leader(player), fold.leader(player ^ distance)});
      }
    out.push_back(std::move(sum));
  }
  return out;
}

}  // namespace

AlgorithmRow halving_doubling_row() {
  return {.algorithm = Algorithm::halving_doubling,
          .summary = "partners exchange halves, then quarters and so on, and then gather them",
          .all_reduce = halving_doubling_all_reduce,
          .reduce_scatter = halving_doubling_reduce_scatter,
          .all_gather = halving_doubling_all_gather,
          .sums = halving_doubling_sums};
}

}  // namespace ringside::peer
