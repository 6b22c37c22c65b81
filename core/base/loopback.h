// The loopback interface of this host, over which its processes speak TCP.
#pragma once

#include <string>

namespace ringside {

/// Throws Error if no process reaches `address`, an address of this interface (127.0.0.1), although
/// one may listen there: in a new network namespace the interface is down. Without this check a
/// process that connects would try until a time-out. The error begins with `name`.
void require_loopback(const std::string& name, const std::string& address);

}  // namespace ringside
