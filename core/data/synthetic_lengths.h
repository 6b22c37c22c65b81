// Synthetic sequences whose lengths differ.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "core/data/dataset.h"

namespace ringside {

/// The distribution of lengths, in tokens; every length is clipped to [1, context].
struct Lengths {
  double median = 64;  // exp(sigma * z) times this, where z is standard normal
  double sigma = 1;
  /// (length, weight): if there are any, lengths are drawn from these instead.
  std::vector<std::pair<std::int64_t, std::int64_t>> histogram{};
};

/// Samples of random sequences for Task::every_token; tokens follow each other by the rule of
/// core/data/synthetic_tokens.h. All depends on the sample's number and on these arguments alone,
/// so every rank knows the lengths of all samples.
///   - Packing::padded: a sample is one sequence, and samples differ in length (Dataset::length).
///   - Packing::packed: a sample is a context full of sequences. The target of a sequence's last
///     token is the token that would follow; attention does not stop where a sequence begins, as
///     in the pre-training of GPT-2 and GPT-3.
/// Throws Error for arguments that no sample can have.
std::unique_ptr<Dataset> synthetic_lengths_dataset(std::int64_t samples, std::int64_t context,
                                                   std::int64_t vocabulary, const Lengths& lengths,
                                                   Packing packing, std::uint64_t seed);

}  // namespace ringside
