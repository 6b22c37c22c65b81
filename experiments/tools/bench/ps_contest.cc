#include "experiments/tools/bench/ps_contest.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <random>

#include "core/base/error.h"
#include "experiments/tools/bench/ps_bounds.h"
#include "experiments/tools/bench/ps_way.h"

namespace ringside::tools::bench {
namespace {

constexpr std::int64_t element_bytes = sizeof(float);

struct Way : Contender {
  ps::PsOptions options{};
};

std::vector<Way> ways_of(const PsBench& bench, int servers, RankGroup& ranks) {
  std::vector<Way> ways;
  for (const auto transport : bench.transports)
    for (const ps::Consistency consistency : bench.consistencies) {
      const ps::PsOptions options{.servers = servers,
                                  .placement = bench.placement,
                                  .consistency = consistency,
                                  .transport = transport,
                                  .partition_mb = static_cast<double>(bench.partition_bytes) / 1e6,
                                  .reach = {.keys = bench.keys}};
      ways.push_back({{&ranks, name_of_way(options)}, options});
    }
  return ways;
}

PsBounds medians_of(const std::vector<Contender>& bounds, std::int64_t bytes) {
  std::map<std::string, double> medians;
  for (const Contender& bound : bounds) {
    if (bound.wrong > 0)
      throw Error("bench ps: bounds: {} left {} elements behind", bound.way, bound.wrong);
    medians[bound.way] = call_times(bound.us, bytes, 2).p50;
  }
  return {medians.at("copy-1"), medians.at("copy-2"), medians.at("tcp"), medians.at("unix"),
          medians.at("zmq")};
}

std::vector<PsRow> measure(const PsBench& bench, int workers, int servers, std::int64_t size,
                           RankGroup& ranks, RankGroup& bounds) {
  const std::int64_t count = size / element_bytes / servers * servers;
  std::vector<Way> ways = ways_of(bench, servers, ranks);
  std::vector<Contender> limits;
  for (const std::string& bound : ps_bounds()) limits.push_back({&bounds, bound});
  std::vector<std::string> names;
  std::vector<Contender*> in_turn;
  for (Way& way : ways) {
    names.push_back(way.way);
    in_turn.push_back(&way);
  }
  for (Contender& bound : limits) in_turn.push_back(&bound);
  ranks.prepare(fmt::format("{}", fmt::join(names, ",")), count);
  bounds.prepare("bounds", count);
  Interleaving turns = interleaving_for(size);
  if (bench.rounds > 0) turns.rounds = bench.rounds;
  interleave(in_turn, turns,
             bench.one_host ? RankGroup::From::first_begin : RankGroup::From::own_begin);
  std::vector<PsRow> rows;
  for (const Way& way : ways) {
    PsRow& row = rows.emplace_back();
    static_cast<CallTimes&>(row) = call_times(way.us, element_bytes * count, 2);
    row.wrong = way.wrong;
    row.way = way.options;
    row.workers = workers;
    row.size = element_bytes * count;
    row.count = count;
    row.bounds = medians_of(limits, row.size);
  }
  return rows;
}

}  // namespace

void run_ps_contest(const PsBench& bench, int workers, int servers, RankGroup& ranks,
                    RankGroup& bounds, const std::function<void(const PsRow&)>& report) {
  std::vector<std::size_t> order(bench.sizes.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::shuffle(order.begin(), order.end(), std::mt19937(std::random_device{}()));
  std::vector<std::vector<PsRow>> rows(order.size());
  for (const std::size_t i : order)
    rows[i] = measure(bench, workers, servers, bench.sizes[i], ranks, bounds);
  for (const auto& of_size : rows)
    for (const PsRow& row : of_size) report(row);
}

}  // namespace ringside::tools::bench
