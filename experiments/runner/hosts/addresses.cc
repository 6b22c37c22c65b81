#include "experiments/runner/hosts/addresses.h"

#include <arpa/inet.h>
#include <fmt/ranges.h>
#include <ifaddrs.h>
#include <netdb.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <optional>

#include "core/base/error.h"

namespace ringside::runner {
namespace {

std::string text_of(const sockaddr* address) {
  const auto* ipv4 = reinterpret_cast<const sockaddr_in*>(address);
  char text[INET_ADDRSTRLEN] = {};
  inet_ntop(AF_INET, &ipv4->sin_addr, text, sizeof text);
  return text;
}

using Interfaces = std::unique_ptr<ifaddrs, decltype(&freeifaddrs)>;

/// A list; null if the system does not say.
Interfaces interfaces() {
  ifaddrs* all = nullptr;
  return {getifaddrs(&all) == 0 ? all : nullptr, freeifaddrs};
}

/// An IPv6 address, with or without brackets and the interface that follows it ("%eth0").
std::optional<in6_addr> ipv6_of(std::string text) {
  if (text.starts_with('[') && text.ends_with(']')) text = text.substr(1, text.size() - 2);
  in6_addr out{};
  if (inet_pton(AF_INET6, text.substr(0, text.find('%')).c_str(), &out) != 1) return {};
  return out;
}

bool is_own_address(const in6_addr& address) {
  const Interfaces all = interfaces();
  for (const ifaddrs* one = all.get(); one; one = one->ifa_next)
    if (one->ifa_addr && one->ifa_addr->sa_family == AF_INET6 &&
        std::memcmp(&reinterpret_cast<const sockaddr_in6*>(one->ifa_addr)->sin6_addr, &address,
                    sizeof address) == 0)
      return true;
  return IN6_IS_ADDR_LOOPBACK(&address) != 0;
}

std::string ipv4_for(const std::string& option, const std::string& name, const in6_addr& address) {
  if (IN6_IS_ADDR_V4MAPPED(&address)) {
    constexpr int last_four = 12;
    char text[INET_ADDRSTRLEN] = {};
    inet_ntop(AF_INET, &address.s6_addr[last_four], text, sizeof text);
    return text;
  }
  if (is_own_address(address)) return "127.0.0.1";
  throw Error(
      "{} = {} is an IPv6 address, and the processes of a job reach each other by IPv4; give a "
      "name or an IPv4 address of that host",
      option, name);
}

}  // namespace

std::vector<std::pair<std::string, std::string>> own_addresses() {
  const Interfaces all = interfaces();
  std::vector<std::pair<std::string, std::string>> out;
  for (const ifaddrs* one = all.get(); one; one = one->ifa_next)
    if (one->ifa_addr && one->ifa_addr->sa_family == AF_INET)
      out.emplace_back(one->ifa_name, text_of(one->ifa_addr));
  return out;
}

std::string interface_of(const std::string& address) {
  for (const auto& [interface, own] : own_addresses())
    if (own == address) return interface;
  return {};
}

bool is_loopback(const std::string& address) { return address.starts_with("127."); }

bool is_own_address(const std::string& address) {
  const auto own = own_addresses();
  return is_loopback(address) || std::any_of(own.begin(), own.end(), [&](const auto& one) {
           return one.second == address;
         });
}

std::string address_given(const std::string& option, const std::string& given) {
  std::vector<std::string> known;
  for (const auto& [interface, address] : own_addresses()) {
    if (given == interface || given == address) return address;
    known.push_back(fmt::format("{} ({})", address, interface));
  }
  throw Error("{} = {} is neither an address nor an interface of this host, which has {}", option,
              given, fmt::join(known, ", "));
}

std::string resolved(const std::string& option, const std::string& name) {
  if (const auto ipv6 = ipv6_of(name)) return ipv4_for(option, name, *ipv6);
  addrinfo wanted{};
  wanted.ai_family = AF_INET;
  wanted.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (const int cause = getaddrinfo(name.c_str(), nullptr, &wanted, &found); cause != 0)
    throw Error("{} = {}: no IPv4 address is known for this name: {}; give an address", option,
                name, gai_strerror(cause));
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owner(found, freeaddrinfo);
  return text_of(found->ai_addr);
}

}  // namespace ringside::runner
