#include "experiments/job/addresses.h"

#include <arpa/inet.h>
#include <fmt/ranges.h>
#include <ifaddrs.h>
#include <netdb.h>
#include <sys/socket.h>

#include <algorithm>
#include <memory>

#include "core/base/error.h"

namespace ringside {
namespace {

std::string text_of(const sockaddr* address) {
  const auto* ipv4 = reinterpret_cast<const sockaddr_in*>(address);
  char text[INET_ADDRSTRLEN] = {};
  inet_ntop(AF_INET, &ipv4->sin_addr, text, sizeof text);
  return text;
}

}  // namespace

std::vector<std::pair<std::string, std::string>> own_addresses() {
  ifaddrs* all = nullptr;
  if (getifaddrs(&all) != 0) return {};
  const std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> owner(all, freeifaddrs);
  std::vector<std::pair<std::string, std::string>> out;
  for (const ifaddrs* one = all; one; one = one->ifa_next)
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

}  // namespace ringside
