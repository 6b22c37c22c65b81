#include "experiments/tools/advise/fitted_meshes.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "experiments/tools/advise/device_memory.h"
#include "experiments/tools/advise/replica_profile.h"

namespace ringside::tools::advise {
namespace {

constexpr double gigabyte = 1e9;

std::vector<Considered> listed_meshes(const Question& question) {
  std::vector<Considered> out;
  for (const std::int64_t world : question.worlds) {
    auto simplicity = static_cast<int>(families_of(question, world).size());
    const auto units = static_cast<std::int64_t>(question.unit_parameters.size());
    for (const Family& family : mesh_families_of(question, world, units)) {
      for (const std::string& precision : question.precisions)
        for (const Recompute recompute : {Recompute::none, Recompute::full})
          out.push_back({.candidate = {.family = family,
                                       .simplicity = simplicity,
                                       .world = world,
                                       .precision = precision,
                                       .recompute = recompute}});
      ++simplicity;
    }
  }
  return out;
}

/// The mesh with each number of micro-batches that its schedule takes.
std::vector<Candidate> sizes_of(const Question& question, const Candidate& mesh) {
  std::vector<Candidate> out;
  const std::int64_t batch = question.training.train.global_batch;
  if (batch % mesh.replicas() != 0) return out;
  const std::int64_t share = batch / mesh.replicas();
  const Stages& stages = mesh.family.stages;
  for (const std::int64_t samples : {1, 2, 4}) {
    const std::int64_t count = share / samples;
    const bool in_rounds = stages.chunks > 1;  // of as many micro-batches as ranks
    if (share % samples != 0 || (in_rounds && count % stages.ranks != 0)) continue;
    out.push_back(mesh);
    out.back().micro_batches = count;
  }
  return out;
}

void give_up(Considered& mesh, Outcome outcome, const std::string& why) {
  mesh.outcome = outcome;
  mesh.why = why;
}

/// A mesh with a number of micro-batches.
struct SizedMesh {
  std::size_t mesh = 0;  // its place in the list of all
  Candidate candidate;
  FullestWorker fullest;

  double bytes() const { return static_cast<double>(fullest.use.total()); }
};

double room_of(const Question& question) {
  return gigabyte * (question.memory_gb() - question.reserve_gb);
}

std::vector<SizedMesh> rehearsed_sizes(const Question& question, const runner::Rehearse& rehearse,
                                       const std::vector<Considered>& meshes) {
  std::vector<SizedMesh> out;
  std::vector<Candidate> candidates;
  for (std::size_t mesh = 0; mesh < meshes.size(); ++mesh)
    for (Candidate& one : sizes_of(question, meshes[mesh].candidate)) {
      candidates.push_back(one);
      out.push_back({mesh, std::move(one), {}});
    }
  const std::vector<FullestWorker> fullest = fullest_workers(question, rehearse, candidates);
  for (std::size_t i = 0; i < out.size(); ++i) out[i].fullest = fullest[i];
  return out;
}

/// Gives the mesh this number of micro-batches, if it is the fastest so far of those that fit.
void take_size(Considered& mesh, const SizedMesh& size, double ms) {
  if (mesh.bound_ms > 0 && ms >= mesh.bound_ms) return;
  mesh.candidate = size.candidate;
  mesh.needs_gb = size.bytes() / gigabyte;
  mesh.bound_ms = ms;
}

/// Gives the mesh the reason why none of its sizes was taken.
void explain_unfit(Considered& mesh, const std::vector<const SizedMesh*>& sizes,
                   const Question& question) {
  const SizedMesh* least = nullptr;
  for (const SizedMesh* one : sizes)
    if (one->fullest.is_known() && (!least || one->bytes() < least->bytes())) least = one;
  const auto not_in_time = [](const SizedMesh* one) { return one->fullest.late; };
  if (std::ranges::any_of(sizes, not_in_time) && (!least || least->bytes() > room_of(question)))
    return give_up(mesh, Outcome::not_tried,
                   fmt::format("its memory was not counted within {:.0f} s", question.seconds / 4));
  if (!least)
    return give_up(mesh, Outcome::failed,
                   sizes.empty() ? "its replicas do not get as many samples as their schedule needs"
                                 : sizes.front()->fullest.why);
  mesh.needs_gb = least->bytes() / gigabyte;
  if (least->bytes() > room_of(question))
    return give_up(mesh, Outcome::no_memory,
                   stage_memory_text(mesh.candidate.family.stages, least->fullest));
  give_up(mesh, Outcome::not_tried,
          fmt::format("a replica of so many stages was not simulated within {:.0f} s",
                      question.seconds / 2));
}

}  // namespace

std::optional<std::vector<Considered>> fitted_meshes(const Question& question,
                                                     const runner::Simulate& simulate,
                                                     const runner::Rehearse& rehearse) {
  std::vector<Considered> meshes = listed_meshes(question);
  const std::vector<SizedMesh> sizes = rehearsed_sizes(question, rehearse, meshes);
  std::vector<std::vector<const SizedMesh*>> of_mesh(meshes.size());
  std::vector<const SizedMesh*> fitting;
  std::vector<Candidate> candidates;
  for (const SizedMesh& one : sizes) {
    of_mesh[one.mesh].push_back(&one);
    if (!one.fullest.is_known() || one.bytes() > room_of(question)) continue;
    fitting.push_back(&one);
    candidates.push_back(one.candidate);
  }
  ReplicaProfile profile(question, simulate);
  if (!profile.measure(candidates)) return {};
  for (const SizedMesh* one : fitting)
    if (profile.knows(one->candidate))
      take_size(meshes[one->mesh], *one, profile.step_ms(one->candidate));
  for (std::size_t i = 0; i < meshes.size(); ++i)
    if (meshes[i].bound_ms == 0) explain_unfit(meshes[i], of_mesh[i], question);
  return meshes;
}

}  // namespace ringside::tools::advise
