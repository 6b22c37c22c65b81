// IPv4 addresses of this host and of host names, by which the processes of a job reach each other.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace ringside::runner {

/// The interfaces of this host with their addresses, such as {"eth0", "10.0.0.5"}.
std::vector<std::pair<std::string, std::string>> own_addresses();
/// Whether an address is one of this host, or of its loopback interface.
bool is_own_address(const std::string& address);
/// The interface that has an address; empty if none of this host does.
std::string interface_of(const std::string& address);
bool is_loopback(const std::string& address);

/// The address that a user gives as an address of this host, or as an interface ("eth0"). `option`
/// is how the user gave it. Throws Error that lists this host's addresses if neither fits.
std::string address_given(const std::string& option, const std::string& given);

/// The first IPv4 address of a name; an IPv4 address is returned as it is. An IPv6 address (also
/// "[...]") of this host becomes 127.0.0.1, and one that stands for an IPv4 address
/// ("::ffff:10.0.0.5") becomes that address. Throws Error for other IPv6 addresses, and with the
/// resolver's cause for unknown names; `option` is where the name comes from.
std::string resolved(const std::string& option, const std::string& name);

}  // namespace ringside::runner
