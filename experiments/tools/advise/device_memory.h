// The memory that candidates need of a device: model states by formula, meshes by rehearsals.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "experiments/runner/run/rehearsal.h"
#include "experiments/tools/advise/candidate.h"

namespace ringside::tools::advise {

/// Parameters, gradients and optimizer state that a device holds at least in a run of this plan,
/// whose model has so many parameters.
MemoryUse least_states(RunPlan plan, std::int64_t parameters);
/// A clause, if the host of a machine has no room for the model states that its ranks offload;
/// empty if it may have.
std::string lack_of_host_memory(const Question& question, const RunPlan& plan);

/// The worker of a mesh that holds most.
struct FullestWorker {
  int place = 0;         // in the pipeline
  MemoryUse use{};       // at its peak
  bool partial = false;  // `use` has the model states alone, which are too large for a device
  std::string why{};     // a clause, if the mesh cannot be planned or rehearsed
  bool late = false;     // there was no time for it
  bool is_known() const { return why.empty() && !late; }
};

/// Of each of these meshes, in Question::processes threads and a quarter of Question::seconds.
/// Meshes whose model states are too large are not rehearsed. Blocks.
std::vector<FullestWorker> fullest_workers(const Question& question,
                                           const runner::Rehearse& rehearse,
                                           const std::vector<Candidate>& meshes);

/// "stage 0 takes 96.2 GB of a device: 48.0 GB of activations, 26.4 GB of optimizer state": the
/// worker's stages, and what fills its memory, largest first.
std::string stage_memory_text(const Stages& stages, const FullestWorker& worker);

/// "48.0 GB of activations, 26.4 GB of optimizer state": what has at least a hundredth of all.
std::string parts_of_memory(const MemoryUse& use);

}  // namespace ringside::tools::advise
