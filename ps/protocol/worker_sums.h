// WorkerSums: sums of values over the workers of a run.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "core/device/device.h"
#include "ps/protocol/replies.h"

namespace ringside::ps {

/// The sums of a server (Kind::sum), one after the other. In each of them every worker gives
/// equally many values, and gets their totals, added up in the order of workers. A sum of no values
/// is a barrier.
class WorkerSums {
 public:
  /// Replies carry `token`. The device outlives the sums.
  WorkerSums(Device& device, int workers, std::uint64_t token);

  /// Takes the worker's values. Returns the replies to all workers once these are complete. Throws
  /// Error, and changes nothing, if the request is not about the sum under way, or if its values do
  /// not fit those of the others.
  Replies take(int worker, const Header& header, const std::vector<Tensor>& frames);
  /// No sum waits for this worker any more, whichever process has its seat. Returns the replies of
  /// a sum that waited for this worker alone.
  Replies leave(int worker);

 private:
  /// Ends the sum under way if all remaining workers have given their values.
  Replies end();

  Device& device_;
  std::uint64_t token_;
  std::int64_t done_ = 0;                                     // sums
  std::vector<bool> left_;                                    // by worker
  std::vector<std::optional<std::vector<double>>> summands_;  // by worker, for the sum under way
};

}  // namespace ringside::ps
