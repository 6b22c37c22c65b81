#include "experiments/tools/explain/waits.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "experiments/runner/registry/registry.h"

namespace ringside::tools::explain {
namespace {

/// The names of slices of waits are those that core/scheme/exposed.h, core/train, peer/,
/// ps/protocol/client.cc and experiments/python/ringside_peers/schemes.py give them.
constexpr std::string_view wait_prefix = "wait ", all_ranks = "wait for all ranks";

/// Whether the operation moves a value between two stages (core/train/stage_links.cc); then workers
/// with other samples take no part in it.
bool is_between_stages(const std::string& name) {
  return name.starts_with("output of micro-batch") || name.starts_with("gradient of micro-batch");
}

WaitFor kind_of(const TraceSlice& slice) {
  const std::string& name = slice.name;
  const std::string what = awaited_name(slice);
  if (is_between_stages(what)) return WaitFor::stage;
  if (name == all_ranks) return WaitFor::ranks;
  if (name.find("the host's optimizer") != std::string::npos || what.starts_with("copy of"))
    return WaitFor::host;
  if (what.starts_with("all-reduce") || what.starts_with("reduce-scatter"))
    return WaitFor::reduction;
  if (what.starts_with("all-gather") || what.starts_with("read ")) return WaitFor::gather;
  if (name.starts_with('\'') || name == "reply" || name.starts_with("send ") ||
      name.starts_with("all re"))
    return WaitFor::server;
  return WaitFor::other;
}

/// Whether a server's reply needs messages of all workers. A master answers each worker separately,
/// except for the values, which workers request when they have pushed.
bool answers_together(const RunPlan& plan) {
  return plan.promise == Promise::same_run &&
         runner::find_scheme(plan.scheme).topology == SchemeTopology::servers;
}

/// Whether the slice is a worker's request to a server, with the reply.
bool is_request(const std::string& name) {
  static const std::string_view requests[] = {"inputs", "loss", "pull", "push", "sum", "finish"};
  return std::any_of(std::begin(requests), std::end(requests),
                     [&](std::string_view request) { return name.starts_with(request); });
}

}  // namespace

double Wait::for_last_rank_ms() const {
  if (!last || last->rank == rank) return 0;
  return std::clamp(last->at_ms - begin_ms, 0.0, ms());
}

Collectives::Collectives(const TracedRun& run, const RunPlan& plan)
    : world_(static_cast<std::size_t>(data_world(plan))) {
  for (const RankPlan& rank : plan.ranks)
    if (has_pipeline(plan)) places_.push_back(place_in_mesh(plan, rank.rank));
  const bool together = answers_together(plan);
  for (const TracedWorker& worker : run.workers) {
    const auto [replica, stage] = place(worker.rank);
    for (const TraceSlice& slice : worker.communication)
      if (is_between_stages(slice.name))
        messages_[{slice.name, replica}][worker.rank].push_back(slice.begin_ms);
      else if (together || !is_request(slice.name))
        collectives_[{slice.name, stage}][worker.rank].push_back(slice.begin_ms);
    for (const TracedStep& step : worker.steps)
      for (const TraceSlice& slice : step.main)
        if (slice.name == all_ranks)
          collectives_[{slice.name, stage}][worker.rank].push_back(slice.begin_ms);
  }
}

MeshPlace Collectives::place(int rank) const {
  return places_.empty() ? MeshPlace() : places_.at(static_cast<std::size_t>(rank));
}

std::optional<LastToCome> Collectives::last_of(const Comings& comings, std::size_t ranks, int rank,
                                               double at_ms) {
  const auto own = comings.find(rank);
  if (ranks < 2 || comings.size() < ranks || own == comings.end()) return {};
  const auto at = static_cast<std::size_t>(
      std::find(own->second.begin(), own->second.end(), at_ms) - own->second.begin());
  std::optional<LastToCome> last;
  for (const auto& [other, times] : comings) {
    if (at >= times.size()) return {};
    if (!last || times[at] > last->at_ms) last = {times[at], other};
  }
  return last;
}

std::optional<LastToCome> Collectives::last(const std::string& name, int rank, double at_ms) const {
  const auto found = collectives_.find({name, place(rank).pipeline});
  return found == collectives_.end() ? std::nullopt : last_of(found->second, world_, rank, at_ms);
}

std::optional<LastToCome> Collectives::last_of_message(const std::string& name, int rank,
                                                       double at_ms) const {
  const auto found = messages_.find({name, place(rank).data});
  return found == messages_.end() ? std::nullopt : last_of(found->second, 2, rank, at_ms);
}

std::string awaited_name(const TraceSlice& slice) {
  const std::string& name = slice.name;
  if (name.starts_with(wait_prefix)) return name.substr(wait_prefix.size());
  if (name.starts_with('\'')) return name.substr(1, name.find('\'', 1) - 1);
  return name;
}

const TraceSlice* awaited_by(const TracedWorker& worker, const TraceSlice& wait) {
  const std::string name = awaited_name(wait);
  const TraceSlice* latest = nullptr;
  for (const TraceSlice& slice : worker.communication) {
    if (slice.begin_ms >= wait.end_ms) break;
    if (slice.name == name) latest = &slice;
  }
  return latest;
}

std::vector<Wait> waits_of(const TracedRun& run, const Collectives& collectives) {
  std::vector<Wait> out;
  for (const TracedWorker& worker : run.workers)
    for (const TracedStep& step : worker.steps)
      for (const TraceSlice& slice : step.main) {
        if (slice.activity != Activity::exposed) continue;
        Wait wait{.rank = worker.rank,
                  .what = awaited_name(slice),
                  .kind = kind_of(slice),
                  .begin_ms = slice.begin_ms,
                  .end_ms = slice.end_ms};
        if (wait.kind == WaitFor::ranks) {
          wait.last = collectives.last(slice.name, worker.rank, slice.begin_ms);
        } else if (const TraceSlice* awaited = awaited_by(worker, slice)) {
          wait.begun_ms = awaited->begin_ms;
          if (wait.kind != WaitFor::host)
            wait.last = collectives.last(awaited->name, worker.rank, awaited->begin_ms);
        }
        out.push_back(std::move(wait));
      }
  return out;
}

}  // namespace ringside::tools::explain
