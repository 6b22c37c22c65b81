#include "experiments/tools/advise/replica_profile.h"

#include <algorithm>

#include "core/base/error.h"
#include "core/pipeline/makers.h"
#include "core/plan/places.h"

namespace ringside::tools::advise {
namespace {

const pipeline::MakerInfo& maker_of(const Candidate& candidate) {
  return pipeline::find_maker(candidate.family.stages.schedule);
}

}  // namespace

ReplicaProfile::Key ReplicaProfile::key_of(const Candidate& candidate) const {
  return {candidate.family.stages.ranks, micro_batch_of(question_, candidate)};
}

/// Halves of backward tell the times of both, and as many micro-batches as ranks fill the pipeline.
RunPlan ReplicaProfile::plan_of_replica(const Candidate& candidate) const {
  Candidate lone = candidate;
  lone.world = candidate.family.stages.ranks;
  lone.micro_batches = lone.world;
  lone.family.scheme = "ddp";
  lone.family.stages = {.ranks = lone.world, .schedule = "zb_h1"};
  lone.family.options = mesh_settings(lone.family.stages);
  return plan_of_lone_replica(question_, lone, micro_batch_of(question_, candidate));
}

bool ReplicaProfile::measure(const std::vector<Candidate>& candidates) {
  std::vector<Key> unknown;
  std::vector<RunPlan> plans;
  for (const Candidate& one : candidates) {
    const Key key = key_of(one);
    if (known_.contains(key) || std::find(unknown.begin(), unknown.end(), key) != unknown.end())
      continue;
    unknown.push_back(key);
    plans.push_back(plan_of_replica(one));
  }
  const std::vector<runner::RunOutcome> outcomes = simulate_(plans, question_.seconds / 2);
  for (std::size_t i = 0; i < plans.size(); ++i) {
    if (outcomes[i].interrupted) return false;
    if (outcomes[i].row.error == runner::out_of_time) continue;
    if (outcomes[i].row.status != "ok")
      throw Error("one replica of {} stages alone: {}", unknown[i].ranks, outcomes[i].row.error);
    known_[unknown[i]] = ranks_of(outcomes[i].row);
  }
  return true;
}

std::vector<ReplicaProfile::Rank> ReplicaProfile::ranks_of(const RunRecord& row) const {
  std::vector<Rank> out;
  for (const RankRecord& rank : row.ranks) {
    const StageRecord& stage = rank.pipeline.value().stages.at(0);
    const auto micro_batches = static_cast<double>(row.plan.train.accumulation);
    out.push_back({.times = {1e-3 * stage.forward_ms, 1e-3 * stage.input_gradient_ms,
                             1e-3 * stage.weight_gradient_ms},
                   .sent_bytes = rank.pipeline->bytes_sent_per_step / (2 * micro_batches)});
  }
  return out;
}

/// On the way between the first two stages.
double ReplicaProfile::send_s(const Candidate& candidate, const Rank& rank) const {
  const sim::ClusterSpec& cluster = question_.cluster();
  const auto next = static_cast<int>(candidate.world / candidate.family.stages.ranks);
  const bool within = place_of_worker(cluster, 0).machine == place_of_worker(cluster, next).machine;
  const sim::LinkSpec& link = within ? cluster.peer : cluster.nic;
  return link.gbs > 0 ? rank.sent_bytes / (1e9 * link.gbs) : 0;
}

double ReplicaProfile::step_ms(const Candidate& candidate) const {
  const std::vector<Rank>& ranks = known_.at(key_of(candidate));
  const Stages& stages = candidate.family.stages;
  const pipeline::Schedule schedule = with_sends(maker_of(candidate).make(
      static_cast<int>(stages.ranks), static_cast<int>(stages.chunks), candidate.micro_batches));
  pipeline::ScheduleTimes times{.send_s = send_s(candidate, ranks[0])};
  const auto chunks = static_cast<double>(schedule.stages()) / static_cast<double>(stages.ranks);
  for (const int rank : schedule.ranks_of) {
    const pipeline::StageTimes& whole = ranks[static_cast<std::size_t>(rank)].times;
    times.stages.push_back({whole.f / chunks, whole.b / chunks, whole.w / chunks});
  }
  return 1e3 * simulate(schedule, times).whole_s;
}

}  // namespace ringside::tools::advise
