// What one rank reports when its part of a run is over.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "core/base/traffic.h"
#include "core/device/device.h"
#include "core/observe/timeline.h"

namespace ringside {

/// By how many updates the parameters that gradients were computed with were older than those that
/// the gradients were applied to.
struct Staleness {
  double p50 = 0;  // over the measured steps
  double max = 0;
};

struct RankRecord {
  int rank = 0;
  std::string role;
  std::string host;
  /// This rank's share of the loss of every micro-batch, step after step; and, by step, where the
  /// time went. Empty for ranks that only serve.
  std::vector<double> losses;
  std::vector<StepTime> steps;
  /// Steps that changed nothing because gradients were not finite.
  std::int64_t skipped_steps = 0;
  /// Processor time of the rank's process, of all its threads, during the measured steps; seconds.
  double processor_s = 0;
  /// Seconds a step in the optimizer on ranks that serve.
  double serving_optimizer_s = 0;
  /// Over the measured steps alone, a step.
  double bytes_sent_per_step = 0;
  double bytes_received_per_step = 0;
  bool bytes_computed = false;  // by a closed form, not counted (Traffic::computed)
  /// Of a worker's evaluations together, which lie outside of steps.
  double evaluation_s = 0;
  Traffic evaluation_bytes;
  MemoryUse at_peak;
  /// Largest resident set, and how much of the present one is memory of other processes that this
  /// one maps; bytes, at the end of the last step.
  std::int64_t rss = 0;
  std::int64_t rss_of_peers = 0;
  /// Of a device with memory of its own, as its driver counts, at the end of the last step.
  std::optional<DeviceMemory> device_memory{};
  /// Of a sample; 0 where there are none (images).
  std::int64_t tokens_per_sample = 0;
  /// Elements of the model, and the least bytes that the busiest rank of the run must send a step.
  std::int64_t parameters = 0;
  double minimum_bytes_per_step = 0;
  /// From worker 0: hash of the parameters (XXH3-128 in hexadecimal), held-out losses.
  std::string parameter_hash;
  struct Evaluation {
    std::int64_t step;
    double loss;        // the sum of all terms
    double first_term;  // the loss of the first term alone
    double accuracy;    // of the first term: share of rows whose largest logit is the target's
    double seconds;     // since the beginning of the first step
  };
  std::vector<Evaluation> evaluations;
  /// None where the scheme has no stale gradients.
  std::optional<Staleness> staleness{};
  /// The last steps, for a trace.
  std::vector<Timeline::Slice> slices;
};

/// Bytes by the names of the kinds, in their order.
nlohmann::ordered_json to_json(const MemoryUse& use);
MemoryUse memory_use_from_json(const nlohmann::json& in);
/// {reserved, outside, capacity}, or null.
nlohmann::ordered_json to_json(const std::optional<DeviceMemory>& memory);
std::optional<DeviceMemory> device_memory_from_json(const nlohmann::json& in);

/// {p50, max}, or null.
nlohmann::ordered_json to_json(const std::optional<Staleness>& staleness);
std::optional<Staleness> staleness_from_json(const nlohmann::json& in);

nlohmann::json to_json(const RankRecord& record);
RankRecord rank_record_from_json(const nlohmann::json& in);

}  // namespace ringside
