// The schedules of the field, by name.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "core/pipeline/schedule.h"

namespace ringside::pipeline {

struct MakerInfo {
  std::string_view name;     // "1f1b"
  std::string_view torch{};  // its name in torch.distributed.pipelining, an alias; may be empty
  std::string_view summary{};
  /// Whether a rank may have several stages (`chunks`), or always has two.
  enum class Chunks : std::uint8_t { one, any, two } chunks = Chunks::one;
  bool splits_backward = false;  // has I and W in place of B
  /// `ranks` in the pipeline, `chunks` stages a rank, at least one of each. Throws Error for
  /// numbers that the schedule does not allow. The schedule only computes.
  Schedule (*make)(int ranks, int chunks, std::int64_t micro_batches);
  /// The time that a rank is idle, in a step, where all ranks wait for the last one, over the
  /// longest time of any rank's compute; no latency, and equal stages that take f, b (input
  /// gradient) and w (weight gradient) seconds a micro-batch each. By the formula of the paper.
  double (*bubble)(int ranks, int chunks, std::int64_t micro_batches, double f, double b, double w);
  /// The most micro-batches whose activations stage `stage` holds at a time, by the paper.
  std::int64_t (*in_flight)(int ranks, int chunks, std::int64_t micro_batches, int stage);
};

/// sequential, gpipe, 1f1b, interleaved, zb_h1, zb_h2, zb_v. Each is made in a file of its own,
/// which names its paper.
const std::vector<MakerInfo>& maker_rows();
/// Throws Error that tells all names for an unknown one; takes the names of torch too.
const MakerInfo& find_maker(std::string_view name);

}  // namespace ringside::pipeline
