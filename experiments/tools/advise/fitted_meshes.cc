#include "experiments/tools/advise/fitted_meshes.h"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <iterator>
#include <limits>

#include "experiments/tools/advise/replica_profile.h"

namespace ringside::tools::advise {
namespace {

constexpr double gigabyte = 1e9, unknown_bytes = std::numeric_limits<double>::max();

std::vector<Considered> listed_meshes(const Question& question) {
  std::vector<Considered> out;
  for (const std::int64_t world : question.worlds) {
    auto simplicity = static_cast<int>(families_of(question, world).size());
    for (const Family& family : mesh_families_of(question, world, question.units)) {
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
std::vector<Candidate> shapes_of(const Question& question, const Candidate& mesh) {
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

/// Takes the fastest shape that fits.
void fit(Considered& mesh, const Question& question, const ReplicaProfile& profile) {
  const double room = gigabyte * (question.memory_gb() - question.reserve_gb);
  double least = unknown_bytes;
  bool late = false;
  for (const Candidate& shape : shapes_of(question, mesh.candidate)) {
    if (!profile.knows(shape)) {
      late = true;
      continue;
    }
    const double bytes = profile.most_bytes(shape), ms = profile.step_ms(shape);
    least = std::min(least, bytes);
    if (bytes > room || (mesh.bound_ms > 0 && ms >= mesh.bound_ms)) continue;
    mesh.candidate = shape;
    mesh.needs_gb = bytes / gigabyte;
    mesh.bound_ms = ms;
  }
  if (mesh.bound_ms > 0) return;
  if (late)
    return give_up(mesh, Outcome::not_tried,
                   fmt::format("a replica of so many stages was not simulated within {:.0f} s",
                               question.seconds / 2));
  if (least == unknown_bytes)
    return give_up(mesh, Outcome::failed,
                   "its replicas do not get as many samples as their schedule needs");
  mesh.needs_gb = least / gigabyte;
  give_up(mesh, Outcome::no_memory,
          fmt::format("its largest stage takes {:.1f} GB of a device", mesh.needs_gb));
}

}  // namespace

std::optional<std::vector<Considered>> fitted_meshes(const Question& question,
                                                     const runner::Simulate& simulate) {
  std::vector<Considered> meshes = listed_meshes(question);
  std::vector<Candidate> shapes;
  for (const Considered& one : meshes)
    std::ranges::move(shapes_of(question, one.candidate), std::back_inserter(shapes));
  ReplicaProfile profile(question, simulate);
  if (!profile.measure(shapes)) return {};
  for (Considered& one : meshes) try {
      fit(one, question, profile);
    } catch (const std::exception& error) {
      give_up(one, Outcome::failed, error.what());
    }
  return meshes;
}

}  // namespace ringside::tools::advise
