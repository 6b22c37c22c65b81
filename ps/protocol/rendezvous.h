// Values that the ranks of a run exchange through its store before they can send messages.
#pragma once

#include <cstdint>
#include <string>

#include "core/comm/store.h"

namespace ringside::ps {

/// Where server 0 leaves the run's token: the text of draw_token().
inline constexpr const char* token_key = "ps.token";
/// Where a server says that it listens, and where.
std::string endpoint_key(int server);

/// Draws a random token, by which a run's messages are distinguished from those of other runs. The
/// token need not be secret.
std::string draw_token();
/// Returns the run's token. Blocks until server 0 has left it, at most `timeout_s`; then throws
/// Error.
std::uint64_t shared_token(Store& store, double timeout_s);

}  // namespace ringside::ps
