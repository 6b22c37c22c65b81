// Ring, for an array of S bytes on p ranks: a reduce-scatter and an all-gather, each p - 1 steps in
// which every rank sends S/p to the next rank (Thakur, Rabenseifner and Gropp 2005, section 3.4;
// Patarasuk and Yuan 2009). An all-reduce costs 2 * (p-1) steps and sends 2 * S * (p-1)/p: the
// fewest bytes that are possible, in the most steps.
#include "peer/comm/algorithms/ring.h"

#include "peer/comm/algorithms/algorithms.h"

namespace ringside::peer {
namespace {

const Chunk& chunk(const std::vector<Chunk>& chunks, const Team& team, int place) {
  return chunks[static_cast<std::size_t>(team.wrapped(place))];
}

void ring_all_reduce(Exchange& exchange) {
  const Team team = everyone(exchange);
  const auto chunks = divide({Array::in, 0, exchange.count(Array::in)}, team.size());
  ring_scatter(exchange, team, chunks);
  ring_gather(exchange, team, chunks);
}

void ring_reduce_scatter(Exchange& exchange) {
  const Team team = everyone(exchange);
  const auto chunks = equal_parts(Array::in, exchange.count(Array::in), team.size());
  ring_scatter(exchange, team, chunks);
  exchange.copy(chunk(chunks, team, team.place)[0], {Array::out, 0, exchange.count(Array::out)});
}

void ring_all_gather(Exchange& exchange) {
  const Team team = everyone(exchange);
  const auto chunks = equal_parts(Array::out, exchange.count(Array::out), team.size());
  exchange.copy({Array::in, 0, exchange.count(Array::in)}, chunk(chunks, team, team.place)[0]);
  ring_gather(exchange, team, chunks);
}

std::vector<Sum> ring_sums(Collective::Kind kind, std::int64_t count,
                           const std::vector<int>& hosts) {
  const auto ranks = static_cast<int>(hosts.size());
  const auto chunks = kind == Collective::Kind::all_reduce ? divide({Array::in, 0, count}, ranks)
                                                           : equal_parts(Array::in, count, ranks);
  Team team{{}, 0};
  for (int r = 0; r < ranks; ++r) team.ranks.push_back(r);
  std::vector<Sum> out;
  for (int r = 0; r < ranks; ++r) {
    const Elements& part = chunk(chunks, team, r)[0];
    out.push_back({part.begin, part.count, ring_additions(team, r)});
  }
  return out;
}

}  // namespace

void ring_scatter(Exchange& exchange, const Team& team, const std::vector<Chunk>& chunks) {
  for (int step = 0; step + 1 < team.size(); ++step) {
    std::vector<Sending> sends;
    std::vector<Receiving> receives;
    for (const Elements& piece : chunk(chunks, team, team.place - step - 1))
      sends.push_back({team.after(1), piece});
    for (const Elements& piece : chunk(chunks, team, team.place - step - 2))
      receives.push_back({team.after(-1), piece, piece});
    exchange.step(sends, receives);
  }
}

void ring_gather(Exchange& exchange, const Team& team, const std::vector<Chunk>& chunks) {
  for (int step = 0; step + 1 < team.size(); ++step) {
    std::vector<Sending> sends;
    std::vector<Receiving> receives;
    for (const Elements& piece : chunk(chunks, team, team.place - step))
      sends.push_back({team.after(1), piece});
    for (const Elements& piece : chunk(chunks, team, team.place - step - 1))
      receives.push_back({team.after(-1), piece});
    exchange.step(sends, receives);
  }
}

std::vector<Addition> ring_additions(const Team& team, int place) {
  // The chunk starts at the member after the one to which it belongs, and grows at each member.
  std::vector<Addition> out;
  const Team from{team.ranks, place};
  for (int step = 2; step <= team.size(); ++step)
    out.push_back({from.after(step), from.after(step - 1)});
  return out;
}

AlgorithmRow ring_row() {
  return {.algorithm = Algorithm::ring,
          .summary = "reduce-scatter and all-gather round a ring",
          .all_reduce = ring_all_reduce,
          .reduce_scatter = ring_reduce_scatter,
          .all_gather = ring_all_gather,
          .sums = ring_sums};
}

}  // namespace ringside::peer
