// Ranks of NCCL as threads, for tests.
#pragma once

#include "core/device/cuda/cuda.h"
#include "peer/comm/nccl/communicator.h"
#include "tests/peer/ranks.h"
#include "tests/support/complaint.h"

namespace ringside::testing {

/// Runs `body` on `size` threads, each with a GPU and a communicator of its own. Returns the text
/// of each rank's exception; "" for a rank that threw nothing.
inline std::vector<std::string> errors_of_nccl_ranks(int size, double timeout_s,
                                                     const std::function<void(const Rank&)>& body) {
  return errors_of_ranks_on([] { return cuda::make_cuda_device({}); }, peer::make_nccl_communicator,
                            size, timeout_s, body);
}

/// Runs `body` in the same way, and expects that no rank throws.
inline void run_nccl_ranks(int size, const std::function<void(const Rank&)>& body) {
  EXPECT_EQ(errors_of_nccl_ranks(size, 60, body),
            std::vector<std::string>(static_cast<std::size_t>(size)));
}

}  // namespace ringside::testing
