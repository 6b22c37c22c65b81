// The schedules of the field, by name.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "core/pipeline/schedule.h"

namespace ringside::pipeline {

/// Formulas are for equal stages that take f, b (input gradient) and w (weight gradient) seconds a
/// micro-batch each, and sends that take no time. simulate() gives the same numbers for all sizes
/// and times; formulas are not a number (NaN) where the paper has none.
struct MakerInfo {
  std::string_view name;     // "1f1b"
  std::string_view torch{};  // its name in torch.distributed.pipelining, an alias; may be empty
  std::string_view summary{};
  /// Whether a rank may have several stages (`chunks`), or always has two.
  enum class Chunks : std::uint8_t { one, any, two } chunks = Chunks::one;
  /// `ranks` in the pipeline, `chunks` stages a rank, at least one of each. Throws Error for
  /// numbers that the schedule does not allow. The schedule only computes.
  Schedule (*make)(int ranks, int chunks, std::int64_t micro_batches);
  /// The time that a rank is idle, in a step, where all ranks wait for the last one, over the
  /// longest time of any rank's compute. Narayanan et al. 2021 (section 2.2) count so: (p - 1)/m
  /// for 1F1B. GPipe (section 2.3) counts bubble_share() of it: (p - 1)/(m + p - 1).
  double (*bubble)(int ranks, int chunks, std::int64_t micro_batches, double f, double b, double w);
  /// The longest time that any rank is idle between its first and its last action, in seconds. Qi
  /// et al. 2024 (section 2.3) count so, because they let a rank begin the next step while others
  /// still are in this one: the optimizer is checked later. Not so in a step at whose end all ranks
  /// wait for each other.
  double (*idle)(int ranks, int chunks, std::int64_t micro_batches, double f, double b, double w);
  /// The most micro-batches whose activations stage `stage` holds at a time, from F until B or W.
  std::int64_t (*in_flight)(int ranks, int chunks, std::int64_t micro_batches, int stage);
};

/// The bubble as a share of the whole step: a rank that computes for 1 s and idles for `bubble` s.
constexpr double bubble_share(double bubble) { return bubble / (1 + bubble); }

/// sequential, gpipe, 1f1b, interleaved, zb_h1, zb_h2, zb_v. Each is made in a file of its own,
/// which names its paper.
const std::vector<MakerInfo>& maker_rows();
/// Throws Error that tells all names for an unknown one; takes the names of torch too, in letters
/// of any case.
const MakerInfo& find_maker(std::string_view name);
/// The stages of a rank if the user does not say: 2 where a rank always has two, else 1.
constexpr int usual_chunks(const MakerInfo& row) {
  return row.chunks == MakerInfo::Chunks::two ? 2 : 1;
}

}  // namespace ringside::pipeline
