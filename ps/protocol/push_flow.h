// Arrows in traces from the push of a worker to the update that a server makes of it.
#pragma once

#include "ps/protocol/message.h"

namespace ringside::ps {

/// The number of the arrow (SpanNote::flows). Both ends compute it from the push itself: the
/// worker, the step, the number of the push within the step, and the first element of the chunk.
std::int64_t push_flow(int worker, std::int64_t step, std::int64_t push, std::int64_t begin);

/// The same, from the header of the push.
inline std::int64_t push_flow(const Header& header) {
  return push_flow(header.worker, header.step, header.micro_batch, header.begin);
}

}  // namespace ringside::ps
