// Ranks that are processes of this host: ours, and those of other libraries.
#include <algorithm>
#include <memory>

#include "core/base/error.h"
#include "core/plan/device_traits.h"
#include "experiments/tools/bench/comm_measured.h"
#include "experiments/tools/bench/own_processes.h"
#include "experiments/tools/bench/own_ranks.h"
#include "experiments/tools/bench/reference_libraries.h"

namespace ringside::tools::bench {
namespace {

struct CommContender : Contender {
  std::string communicator{};
  std::optional<Algorithm> algorithm{};
};

/// All who take turns at one world.
class Contest {
 public:
  Contest(const CommBench& bench, int world)
      : bench_(bench), world_(world), own_name_(device_traits(bench.device.kind).communicator) {
    // A tenth longer than ranks wait for each other, since they know who is missing.
    const Patience patience{1.1 * bench.timeout_s, bench.interrupted};
    nlohmann::json algorithms = nlohmann::json::array();
    for (const Algorithm algorithm : bench.algorithms) algorithms.push_back(name_of(algorithm));
    const OwnProcess process{.work = {{"comm", {{"algorithms", algorithms}}}}};
    groups_.push_back(start_ranks("bench comm: " + own_name_, bench.program,
                                  plan_of_ranks(bench.device, world, bench.timeout_s),
                                  std::vector<OwnProcess>(static_cast<std::size_t>(world), process),
                                  patience));
    for (const ReferenceLibrary& library : bench.beside)
      groups_.push_back(start_reference_library(library, world, bench.program, patience));
  }

  /// The rows of one operation and size.
  std::vector<CommRow> measure(const CommOperation& operation, std::int64_t size) {
    const std::int64_t count = count_of(operation, size, world_);
    std::vector<CommContender> contenders = contenders_for(operation);
    std::vector<Contender*> in_turn;
    for (CommContender& one : contenders) {
      if (one.group != groups_[0].get() || &one == &contenders[0])
        one.group->prepare(operation.name, count);
      in_turn.push_back(&one);
    }
    Interleaving turns = interleaving_for(size);
    if (bench_.rounds > 0) turns.rounds = bench_.rounds;
    interleave(in_turn, turns);
    return rows_of(operation, count, contenders);
  }

  void close() {
    for (const auto& group : groups_) group->close();
  }

 private:
  std::vector<CommContender> contenders_for(const CommOperation& operation) const {
    std::vector<CommContender> out;
    for (const Algorithm algorithm : bench_.algorithms)
      out.push_back({{groups_[0].get(), std::string(name_of(algorithm))}, own_name_, algorithm});
    for (std::size_t i = 0; i < bench_.beside.size(); ++i) {
      const ReferenceLibrary& library = bench_.beside[i];
      const auto& some = library.operations;
      if (some.empty() || std::find(some.begin(), some.end(), operation.name) != some.end())
        out.push_back({{groups_[i + 1].get(), "its-own"}, library.name});
    }
    if (operation.name == "all_reduce" && device_traits(bench_.device.kind).on_processor)
      out.push_back({{groups_[0].get(), bound_way, false}});
    return out;
  }

  std::vector<CommRow> rows_of(const CommOperation& operation, std::int64_t count,
                               const std::vector<CommContender>& contenders) const {
    std::vector<CommRow> rows;
    std::optional<double> bound;
    for (const CommContender& one : contenders) {
      CommRow row = measured(operation, one.algorithm, world_, count, one.us);
      if (one.way == bound_way) {
        bound = row.p50;
        continue;
      }
      row.communicator = one.communicator;
      row.note = one.group->note();
      row.wrong = one.wrong;
      rows.push_back(row);
    }
    for (CommRow& row : rows)
      if (row.algorithm)
        row.bound_us = bound;
      else
        row.ratio = row.p50 / rows[0].p50;
    return rows;
  }

  const CommBench& bench_;
  int world_;
  std::string own_name_;
  std::vector<std::unique_ptr<RankGroup>> groups_;  // ours, then the libraries
};

}  // namespace

void bench_processes(const CommBench& bench, int world, const Report& report) {
  Contest contest(bench, world);
  for (const std::string& name : bench.operations)
    for (const std::int64_t size : bench.sizes)
      for (const CommRow& row : contest.measure(find_comm_operation(name), size)) report(row);
  contest.close();
}

}  // namespace ringside::tools::bench
