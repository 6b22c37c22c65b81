// Schedules that tests run over: every maker at many sizes.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "core/pipeline/makers.h"

namespace ringside::pipeline {

// As the actions are written.
inline constexpr auto F = Operation::forward, B = Operation::backward,
                      I = Operation::input_gradient, W = Operation::weight_gradient,
                      send_f = Operation::send_forward, recv_f = Operation::receive_forward,
                      send_b = Operation::send_backward, recv_b = Operation::receive_backward;

struct MadeSchedule {
  const MakerInfo* row = nullptr;
  int ranks = 1, chunks = 1;
  std::int64_t micro_batches = 1;
  Schedule schedule{};
  std::string label() const {
    return std::string(row->name) + ", p = " + std::to_string(ranks) +
           ", v = " + std::to_string(chunks) + ", m = " + std::to_string(micro_batches);
  }
};

/// Whether the row takes these numbers.
inline bool allows(const MakerInfo& row, int ranks, int chunks, std::int64_t micro_batches) {
  switch (row.chunks) {
    case MakerInfo::Chunks::one:
      return chunks == 1;
    case MakerInfo::Chunks::two:
      return chunks == 2;
    case MakerInfo::Chunks::any:
      return chunks == 1 || micro_batches % ranks == 0;
  }
  return false;
}

/// All makers with 1 to 8 ranks, 1 to 3 stages a rank, and 1 to 3p micro-batches.
inline std::vector<MadeSchedule> made_schedules() {
  std::vector<MadeSchedule> out;
  for (const MakerInfo& row : maker_rows())
    for (int ranks = 1; ranks <= 8; ++ranks)
      for (int chunks = 1; chunks <= 3; ++chunks)
        for (std::int64_t m = 1; m <= 3 * ranks; ++m)
          if (allows(row, ranks, chunks, m))
            out.push_back({&row, ranks, chunks, m, row.make(ranks, chunks, m)});
  return out;
}

}  // namespace ringside::pipeline
