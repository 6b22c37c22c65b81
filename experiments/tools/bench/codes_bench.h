// CodesBench: the cost and the errors of compressors of gradients, on one core.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "core/compress/compressor.h"

namespace ringside::tools::bench {

struct CodesBench {
  std::vector<std::string> names;  // of compressors
  CompressionOptions options;      // but for the name
  std::int64_t rows = 1024, columns = 1024;
  int workers = 2;
  int rounds = 9;
  std::function<bool()> interrupted = [] { return false; };
};

/// One compressor. Speeds are bytes of the fp32 gradient divided by the time; those of a plain copy
/// of the gradient are measured in turn with them.
struct CodesRow {
  std::string name;
  bool remembers = false;
  double bits = 0;  // that a worker's message has for each element
  /// |what all workers get - the sum of their gradients| / |that sum|, Euclidean norms, in the
  /// first step; less than 0 for votes, which are no estimate of the sum.
  double error = 0;
  /// The same for the sums of 20 steps together: what a memory of errors gives back. Less than 0
  /// also for compressors that keep velocities, whose sums have another scale.
  double error_of_20 = 0;
  double encode_gbs = 0, decode_gbs = 0, copy_gbs = 0;
};

/// Sums a matrix of normal random numbers over workers on this core, in loops in place of
/// collectives; each step draws other numbers, of which a part is common to all workers and steps,
/// as of gradients. Encoding is what one worker does until its last message is complete, decoding
/// what it makes of all messages. Medians over the rounds. Throws Error for an unknown name.
std::vector<CodesRow> bench_codes(const CodesBench& bench);

std::string codes_text(const CodesBench& bench, const std::vector<CodesRow>& rows);

}  // namespace ringside::tools::bench
