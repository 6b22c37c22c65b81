// The users whose processes hold the two ends of a TCP connection within this host.
#pragma once

#include <netinet/in.h>
#include <sys/types.h>

#include <optional>

namespace ringside {

/// The user whose process has made the connection that `socket` has accepted, or none if the
/// connection has ended meanwhile or the system does not say. For addresses of the loopback
/// interface.
std::optional<uid_t> user_of_peer(int socket);

/// The user whose process listens at this address; none if nobody does or the system does not say.
std::optional<uid_t> user_of_listener(const sockaddr_in& address);

}  // namespace ringside
