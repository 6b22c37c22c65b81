// A way of training that `advise` considers.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/plan/run_plan.h"
#include "core/scheme/scheme_info.h"
#include "experiments/tools/advise/question.h"

namespace ringside::tools::advise {

/// An option of a scheme, and the values to try in place of its default.
struct Tuning {
  std::string option;  // "bucket_mb"
  std::vector<std::string> values;
};

/// The stages into which workers divide the model, and the order of their work.
struct Stages {
  std::int64_t ranks = 1;  // mesh.pipeline; 1: every worker has the whole model
  std::string schedule{};
  std::int64_t chunks = 1;  // stages of each worker
};
/// The keys of the experiment file for them.
std::vector<Setting> mesh_settings(const Stages& stages);

/// A scheme with the options that make it one way of training: the degree of sharding, the
/// placement of servers.
struct Family {
  std::string scheme;
  std::string label;             // "fsdp within machines"
  std::vector<Setting> options;  // keys of the experiment file
  std::vector<Tuning> tunings{};
  SchemeTopology topology = SchemeTopology::peers;
  bool colocated_servers = false;
  ZeroStage stage = ZeroStage::none;  // what its ranks shard
  Offload offloads = Offload::none;
  Stages stages{};  // of a mesh, along whose data dimension the scheme runs
};

/// The families that the question's cluster allows at this world, the simplest first: less code
/// between a model and its step, fewer processes, fewer settings. Schemes with an algorithm of
/// their own are not among them, because they compute another training.
std::vector<Family> families_of(const Question& question, std::int64_t world);

/// The families that divide a model of `units` units into stages: ddp and fsdp over the data
/// dimension, with as many stages as a power of two that divides the world and leaves several
/// replicas, by the schedules 1f1b, interleaved and zb_h1.
std::vector<Family> mesh_families_of(const Question& question, std::int64_t world,
                                     std::int64_t units);

struct Candidate {
  Family family;
  int simplicity = 0;  // the position of `family` in families_of(): 0 is the simplest
  std::int64_t world = 1;
  std::string precision = "fp32";  // dtype of products
  Recompute recompute = Recompute::none;
  Offload offload = Offload::none;
  std::int64_t micro_batches = 1;  // of a rank in a step; on this machine as the training says
  std::vector<Setting> tuned{};    // options of the scheme besides those of the family

  /// The workers with different samples.
  std::int64_t replicas() const { return world / family.stages.ranks; }
};

/// "fsdp within machines, bf16, recompute full, 4 micro-batches"
std::string label_of(const Candidate& candidate);

/// The work that a device computes at once.
struct MicroBatch {
  std::string precision;
  Recompute recompute = Recompute::none;
  std::int64_t samples = 1;
  auto operator<=>(const MicroBatch&) const = default;
};
MicroBatch micro_batch_of(const Question& question, const Candidate& candidate);

/// Settings to try in place of their defaults, each for itself, for the candidate that is best
/// without them.
std::vector<std::vector<Setting>> tunings_of(const Candidate& candidate);

/// The candidate as a case of a comparison of the question's training. Throws Error for impossible
/// settings.
runner::CaseConfig case_of(const Question& question, const Candidate& candidate);

/// The question's training with the settings of the candidate; of a simulated one, with few steps.
runner::ExperimentConfig advised_training(const Question& question, const Candidate& candidate);

/// The run that is simulated for the candidate, with few steps. Throws Error for a candidate that
/// cannot be planned.
RunPlan plan_of(const Question& question, const Candidate& candidate);

/// One step of one device without other ranks and without a limit of memory.
RunPlan lone_plan(const Question& question, const MicroBatch& micro_batch);

/// A few steps of a candidate of one replica, without a limit of memory.
RunPlan plan_of_lone_replica(const Question& question, const Candidate& candidate,
                             const MicroBatch& micro_batch);

/// The least time, in milliseconds, in which workers push their gradients to servers and pull new
/// values through the network cards of the machines (Jiang et al. 2020, BytePS, section 4.1, with
/// the bytes of all workers of a machine going through the machine's cards); 0 without servers, and
/// on one machine.
double network_ms(const Question& question, const Candidate& candidate);

/// Whether the training of `a` is at most as complicated as that of `b`: compares offload, then the
/// family, recomputation, settings and micro-batches.
bool simpler(const Candidate& a, const Candidate& b);

}  // namespace ringside::tools::advise
