// Wire over Gloo's TCP transport. A module, loaded on demand.
#pragma once

#include <memory>
#include <string>

#include "core/comm/communicator.h"
#include "core/comm/store.h"
#include "peer/comm/wire.h"

namespace ringside::peer {

/// Collective: every rank of the group calls this function, and it blocks until each is connected
/// with every other one, at most `timeout_s`. Throws Error that names the ranks that did not come.
/// Ranks may be threads or processes. `address` is the IPv4 address at which others reach this
/// rank; ports are chosen by the system and exchanged through the store. A wire has two TCP
/// connections to every other rank, one for each direction, and two threads: Gloo's, which moves
/// all bytes, and one that watches waits. A message crosses the network three times, or once if its
/// receiver is ready before its sender. An all-reduce begins when it is waited for; one that is
/// given up ends all connections. Connections are not encrypted, and Gloo does not authenticate
/// them: use Gloo only in networks whose hosts are trusted. Both ends exchange one word to show
/// that they belong to the group. If a stranger connects to a port first, the rank cannot connect,
/// and the error names this cause. Throws Error that says what to install if Gloo is missing.
std::unique_ptr<Wire> make_gloo_wire(Store& store, const Group& group, const std::string& address,
                                     double timeout_s);

/// The reason why Gloo cannot be used; empty if it can.
std::string why_no_gloo();

}  // namespace ringside::peer
