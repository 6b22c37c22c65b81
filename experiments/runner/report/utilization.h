// Model FLOPs utilization: the share of its devices' peak that a run used.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "core/observe/run_record.h"

namespace ringside::runner {

/// MFU (Chowdhery et al., PaLM, 2022, appendix B) is the model's floating-point operations a second
/// divided by the peak of the devices of all workers in products of that dtype. The model's
/// operations are three times the products of forward: for transformers 6 N a token, where N are
/// the parameters that take part in products, and those of attention. Recomputation does not count;
/// HFU counts it.
struct Utilization {
  std::optional<double> mfu{};  // a share
  std::optional<double> hfu{};  // of runs that recompute
  std::optional<ModelWork> work{};
  std::optional<Peak> peak{};  // of one worker: the mean where their devices differ
  std::string formula{};       // with all numbers; empty without mfu
  std::string missing{};       // why there is no mfu
};

/// The peak rate of the run's workers, if it is known: device.peak_tflops, the peak of the
/// simulated cluster's devices, or RunRecord::measured_peak.
std::optional<Peak> peak_of(const RunRecord& row);

/// Of one repeat of a case, and the samples/s of the case.
Utilization utilization_of(const RunRecord& row, double samples_per_s);

nlohmann::ordered_json to_json(const Utilization& utilization);

}  // namespace ringside::runner
