#include "core/plan/same_run.h"

#include <algorithm>

#include "core/plan/mesh.h"

namespace ringside {
namespace {

/// What a run computes. Everything in these structs counts as part of the training but the fields
/// that training_of() gives their defaults.
struct Training {
  ModelConfig model;
  DataConfig data;
  TrainConfig train;
  OptimizerConfig optimizer;
  DeviceConfig device;
  SimConfig sim;
  bool operator==(const Training&) const = default;
};

Training training_of(const RunPlan& plan) {
  Training out{plan.model, plan.data, plan.train, plan.optimizer, plan.device, plan.sim};
  const auto leave_out = []<class Struct>(Struct& from, auto... members) {
    ((from.*members = Struct{}.*members), ...);
  };
  // must_equal() looks at this.
  leave_out(out.model, &ModelConfig::batch_norm_group);
  // These decide the order of the sums and the learning rate, which stand in RunPlan::sums.
  leave_out(out.train, &TrainConfig::micro_batch, &TrainConfig::accumulation, &TrainConfig::shares,
            &TrainConfig::weights, &TrainConfig::reduce);
  leave_out(out.optimizer, &OptimizerConfig::lr, &OptimizerConfig::lr_scaling);
  // train.global_batch says what follows from this.
  leave_out(out.train, &TrainConfig::batch_per_rank);
  // These decide how long a run takes and how much memory it needs.
  leave_out(out.train, &TrainConfig::warmup, &TrainConfig::recompute, &TrainConfig::timeout_s,
            &TrainConfig::offload);
  leave_out(out.device, &DeviceConfig::threads, &DeviceConfig::cluster, &DeviceConfig::slow,
            &DeviceConfig::jitter, &DeviceConfig::efficiency, &DeviceConfig::unfused,
            &DeviceConfig::peak_tflops);
  leave_out(out.sim, &SimConfig::message_ranks, &SimConfig::traced_ranks,
            &SimConfig::network_gbit_s, &SimConfig::queue_kb, &SimConfig::drops, &SimConfig::jitter,
            &SimConfig::spread, &SimConfig::device_share, &SimConfig::tuning,
            &SimConfig::servers_apart, &SimConfig::framework, &SimConfig::messages,
            &SimConfig::decode, &SimConfig::intervals);
  if (!plan.cluster) out.sim = {};
  return out;
}

/// Whether both runs have the same simulated cluster, or none. The memory of the devices may
/// differ, because a definition needs that of all workers.
bool same_cluster(const RunPlan& a, const RunPlan& b) {
  if (!a.cluster || !b.cluster) return !a.cluster && !b.cluster;
  sim::ClusterSpec other = *b.cluster;
  other.device.memory_gb = a.cluster->device.memory_gb;
  for (std::size_t i = 0; i < std::min(other.others.size(), a.cluster->others.size()); ++i)
    other.others[i].device.memory_gb = a.cluster->others[i].device.memory_gb;
  // What checkpoints and failures cost decides nothing of what is computed.
  other.storage = a.cluster->storage;
  other.failures = a.cluster->failures;
  other.assumed = a.cluster->assumed;
  return *a.cluster == other;
}

/// Whether both runs are of the same versions of the user's files, as far as they read any.
bool same_files(const RunPlan& a, const RunPlan& b) {
  return !a.program || !b.program || a.program->files == b.program->files;
}

}  // namespace

bool same_case(const RunPlan& a, const RunPlan& b) {
  RunPlan repeated = b;
  repeated.id = a.id;
  repeated.repeat = a.repeat;
  repeated.listing.place = a.listing.place;
  repeated.listing.line = a.listing.line;
  repeated.save = a.save;
  return repeated == a;
}

bool same_training(const RunPlan& a, const RunPlan& b) { return training_of(a) == training_of(b); }

bool must_equal(const RunPlan& run, const RunPlan& definition) {
  if (run.sums != definition.sums || !same_training(run, definition) ||
      run.model.batch_norm_group != definition.model.batch_norm_group)
    return false;
  if (!has_own_definition(run)) return definition.scheme == reference_scheme;
  return definition.defines == data_world(run) && definition.scheme == run.scheme &&
         definition.options == run.options && same_files(run, definition) &&
         (!run.sums.own_order || same_cluster(run, definition));
}

bool equals_to_rounding(const RunPlan& run, const RunPlan& single) {
  // Of joined batch norms: how many samples are normalised together.
  const auto normed = [](const RunPlan& plan) {
    return plan.model.batch_norm_group * plan.train.micro_batch;
  };
  const bool joined = run.model.batch_norm_group > 1 || single.model.batch_norm_group > 1;
  return run.promise == Promise::same_run && single.scheme == reference_scheme &&
         same_training(run, single) && run.sums.lr == single.sums.lr &&
         (!joined || normed(run) == normed(single));
}

}  // namespace ringside
