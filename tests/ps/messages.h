// Messages of workers, for tests of servers.
#pragma once

#include "ps/protocol/message.h"

namespace ringside::testing {

/// A message of a worker, without frames.
inline ps::Message message_of(std::uint64_t token, ps::Kind kind, int worker, std::int64_t step) {
  return {{.token = token, .kind = kind, .worker = worker, .step = step}, {}};
}

}  // namespace ringside::testing
