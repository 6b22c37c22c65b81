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
/// rank; ports are the system's choice and travel through the store. A wire has two TCP connections
/// to every other rank, one each way, and two threads: Gloo's, which moves all bytes, and one that
/// looks after waits. A message takes three passages of the network, unless its receiver has come
/// before its sender: then one. An all-reduce begins when it is waited for; one that is given up
/// ends all connections. Connections are not encrypted, and both ends show once that they are of
/// the group, as Gloo has no such thing: whoever comes first to a port keeps the rank out, which
/// the error says. They are for networks whose hosts are trusted. Throws Error that says what to
/// install if Gloo is missing.
std::unique_ptr<Wire> make_gloo_wire(Store& store, const Group& group, const std::string& address,
                                     double timeout_s);

/// Why Gloo cannot be used; empty if it can.
std::string why_no_gloo();

}  // namespace ringside::peer
