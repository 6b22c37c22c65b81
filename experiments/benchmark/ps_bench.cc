#include "experiments/benchmark/ps_bench.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <random>

#include "core/base/error.h"
#include "experiments/benchmark/forked_ranks.h"
#include "experiments/benchmark/ps_bounds.h"
#include "experiments/benchmark/ps_rank.h"
#include "experiments/registry/registry.h"

namespace ringside {
namespace {

constexpr std::int64_t element = sizeof(float);

int ranks_of(const PsBench& bench, int workers, int servers) {
  return workers + (bench.placement == ps::Placement::dedicated ? servers : 0);
}

struct Way : Contender {
  ps::PsOptions options{};
};

/// All who take turns with one number of workers and servers.
class PsContest {
 public:
  PsContest(const PsBench& bench, int workers, int servers)
      : bench_(bench),
        roles_{.workers = workers,
               .servers = servers,
               .placement = bench.placement,
               .threads = bench.threads,
               .timeout_s = bench.timeout_s} {
    ForkedRanks forked{.name = "bench ps",
                       .world = ranks_of(bench, workers, servers),
                       .own_cores = false};  // as in a run, whose ranks have threads for messages
    PsRoles roles = roles_;
    for (roles.rank = 0; roles.rank < forked.world; ++roles.rank)
      forked.ranks.push_back(roles.name());
    // A tenth longer than ranks wait for each other, since they know who is missing.
    const Patience patience{1.1 * bench.timeout_s, bench.interrupted};
    ranks_ = fork_ranks(forked, patience, [&](int socket, int rank) {
      roles.rank = rank;
      SharedStore store(*shared_);
      PsRank own(roles, find_device("cpu").links, store,
                 Meeting(*shared_, workers, bench.timeout_s));
      ringside::serve(socket, rank, own);
    });
    bounds_ = fork_bounds(patience);
  }

  std::vector<PsRow> measure(std::int64_t size) {
    const std::int64_t count = size / element / roles_.servers * roles_.servers;
    std::vector<Way> ways;
    for (const auto transport : bench_.transports)
      for (const ps::Consistency consistency : bench_.consistencies) {
        const ps::PsOptions options{.servers = roles_.servers,
                                    .placement = bench_.placement,
                                    .consistency = consistency,
                                    .transport = transport};
        ways.push_back({{ranks_.get(), name_of_way(options)}, options});
      }
    std::vector<Contender> bounds;
    for (const std::string& bound : ps_bounds()) bounds.push_back({bounds_.get(), bound});
    std::vector<std::string> names;
    std::vector<Contender*> in_turn;
    for (Way& way : ways) {
      names.push_back(way.way);
      in_turn.push_back(&way);
    }
    for (Contender& bound : bounds) in_turn.push_back(&bound);
    ranks_->prepare(fmt::format("{}", fmt::join(names, ",")), count);
    bounds_->prepare("bounds", count);
    Turns turns = turns_for(size);
    if (bench_.rounds > 0) turns.rounds = bench_.rounds;
    take_turns(in_turn, turns, RankGroup::From::first_begin);
    return rows_of(ways, bounds, count);
  }

  void close() {
    bounds_->close();  // forked later, so they keep the sockets of the others open
    ranks_->close();
  }

 private:
  std::vector<PsRow> rows_of(const std::vector<Way>& ways, const std::vector<Contender>& bounds,
                             std::int64_t count) const {
    std::map<std::string, double> medians;
    for (const Contender& bound : bounds) {
      if (bound.wrong > 0)
        throw Error("bench ps: bounds: {} left {} elements behind", bound.way, bound.wrong);
      medians[bound.way] = call_times(bound.us, element * count, 2).p50;
    }
    std::vector<PsRow> rows;
    for (const Way& way : ways) {
      PsRow& row = rows.emplace_back();
      static_cast<CallTimes&>(row) = call_times(way.us, element * count, 2);
      row.wrong = way.wrong;
      row.way = way.options;
      row.workers = roles_.workers;
      row.size = element * count;
      row.count = count;
      row.bounds = {medians.at("copy-1"), medians.at("copy-2"), medians.at("tcp"),
                    medians.at("unix")};
    }
    return rows;
  }

  const PsBench& bench_;
  PsRoles roles_;
  std::shared_ptr<SharedRanks> shared_ = make_shared_ranks();
  std::unique_ptr<RankGroup> ranks_, bounds_;
};

void bench_one(const PsBench& bench, int workers, int servers,
               const std::function<void(const PsRow&)>& report) {
  PsContest contest(bench, workers, servers);
  std::vector<std::size_t> order(bench.sizes.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::shuffle(order.begin(), order.end(), std::mt19937(std::random_device{}()));
  std::vector<std::vector<PsRow>> rows(order.size());
  for (const std::size_t i : order) rows[i] = contest.measure(bench.sizes[i]);
  contest.close();
  for (const auto& of_size : rows)
    for (const PsRow& row : of_size) report(row);
}

}  // namespace

void check(const PsBench& bench) {
  const auto check_number = [](const char* option, int number) {
    if (number < 1 || number > most_processes)
      throw Error("{} {}: there are 1 to {} here", option, number, most_processes);
  };
  for (const int workers : bench.workers) check_number("--workers", workers);
  for (const int servers : bench.servers) {
    check_number("--servers", servers);
    for (const int workers : bench.workers) {
      if (bench.placement == ps::Placement::beside && servers > workers)
        throw Error(
            "--servers {}: with --placement beside each is in the process of one of {} worker{}; "
            "take fewer servers or more workers",
            servers, workers, workers == 1 ? "" : "s");
      if (ranks_of(bench, workers, servers) > most_processes)
        throw Error("--workers {} with --servers {}: more than {} processes", workers, servers,
                    most_processes);
    }
    for (const std::int64_t size : bench.sizes)
      if (size < element * servers)
        throw Error(
            "--sizes {}: an array for {} server{} has at least {} bytes, an fp32 element each",
            size, servers, servers == 1 ? "" : "s", element * servers);
  }
}

void run_ps_bench(const PsBench& bench, const std::function<void(const PsRow&)>& report) {
  for (const int workers : bench.workers)
    for (const int servers : bench.servers) bench_one(bench, workers, servers, report);
}

}  // namespace ringside
