// The question that a user asks `advise`: how to train this model, with this global batch, on this
// cluster?
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "experiments/runner/config/config.h"

namespace ringside::tools::advise {

struct Question {
  /// The training and its cluster. The keys that decide the result stay as they are here: model,
  /// data, optimizer and global batch. The advice replaces the scheme and its options,
  /// micro-batches, shares (by equal ones), train.recompute and train.offload.
  runner::ExperimentConfig training;
  /// This machine as `ringside calibrate` measured it, if ranks are cores of its CPU. Precision and
  /// micro-batches then stay as they are, because only operations of their kind have been timed.
  std::optional<sim::ClusterSpec> machine{};
  std::int64_t parameters = 0;  // of the model; set by complete()
  /// Likewise: the parameters of each unit. Stages are made of units.
  std::vector<std::int64_t> unit_parameters{};
  std::vector<std::int64_t> worlds;     // numbers of workers to consider, each at least 1
  std::vector<std::string> precisions;  // dtypes of products to consider: DeviceSpec::tflops
  /// Memory of each device that stays free for memory outside the ledger: the context, buffers of
  /// NCCL, fragments. In GB (1e9 bytes).
  double reserve_gb = 1.5;
  /// Whether meshes are searched even where the whole model fits a device, and at worlds that need
  /// one to divide the batch. Not on this machine.
  bool meshes = false;
  /// The limit on the time of simulations; a simulation that has begun may exceed it.
  double seconds = 40;
  int processes = 1;  // simulations at a time
  double price = 0;   // of a device and hour, in any currency; 0: not known
  /// The number of samples to train, and the hours for it; 0: not asked.
  double samples = 0, deadline_h = 0;

  const sim::ClusterSpec& cluster() const { return machine ? *machine : *training.cluster; }
  bool on_cpus() const { return cluster().device.kind == sim::DeviceKind::cpu; }
  /// Memory of the device that has least of it.
  double memory_gb() const;
  /// The number of ranks for which a machine of the cluster has a device, or a core of its CPUs.
  std::int64_t ranks_of_machine() const {
    return cluster().devices * (on_cpus() ? cluster().device.cores : 1);
  }
};

/// The training that a preset (core/models/presets.h) describes: random data of the kind that the
/// model reads, its optimizer the default one. `overrides` are as in read_experiment(). Throws
/// Error for an unknown preset, and as read_experiment() does.
runner::ExperimentConfig training_of_preset(const std::string& preset,
                                            const std::vector<std::string>& overrides);

/// The dtypes of products that all devices of the question's cluster multiply fastest in 16 and in
/// 32 bits.
std::vector<std::string> usual_precisions(const Question& question);

/// Completes a question whose training, price, samples and deadline are set: ranks on all devices,
/// and with a deadline also on half, a quarter and so on of the machines; the precision of
/// the training. Throws Error for an impossible training, for a global batch that no world divides,
/// for more workers than devices, and for a precision in which devices do not multiply.
void complete(Question& question);

}  // namespace ringside::tools::advise
