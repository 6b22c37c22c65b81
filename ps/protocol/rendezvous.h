// Values that the ranks of a run exchange through its store before they can send messages.
#pragma once

#include <cstdint>
#include <string>

#include "core/comm/store.h"

namespace ringside::ps {

/// The store's key for the run's token, which server 0 sets: the text of draw_token().
inline constexpr const char* token_key = "ps.token";
/// The store's key for a server's address, set once the server listens. A later process of a
/// worker's seat (`process` above 0) has a key of its own, set once the server admits it.
std::string endpoint_key(int server);
std::string endpoint_key(int server, int worker, std::int64_t process);

/// Draws a random token, by which a run's messages are distinguished from those of other runs. The
/// token need not be secret.
std::string draw_token();
/// Returns the run's token. Blocks until server 0 has set it; throws Error after `timeout_s`.
std::uint64_t shared_token(Store& store, double timeout_s);

}  // namespace ringside::ps
