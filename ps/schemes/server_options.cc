#include "ps/schemes/server_options.h"

#include <arpa/inet.h>

#include <algorithm>
#include <utility>

#include "core/base/error.h"

namespace ringside::ps {

void check_port(std::string_view scheme, TransportKind transport, std::int64_t port,
                std::int64_t servers) {
  if (port != 0 && transport != TransportKind::tcp)
    throw Error(
        "scheme.{0}.port = {1}: only transport tcp has ports; set scheme.{0}.transport = \"tcp\", "
        "or leave the port out",
        scheme, port);
  if (port < 0 || port + servers - 1 > 65535)
    throw Error(
        "scheme.{}.port = {}: the ports of {} servers must be from 1 to 65535; "
        "set scheme.{}.port = 0 for any free ports",
        scheme, port, servers, scheme);
}

Fields with_reach(Reach& reach, Fields fields) {
  fields.push_back({"address", &reach.address,
                    "tcp: IPv4 address on which servers listen; empty: 127.0.0.1; one that other "
                    "machines reach needs keys"});
  fields.push_back({"advertise", &reach.advertise,
                    "tcp: address to which workers connect, if it is not the one of `address`"});
  fields.push_back({"keys", &reach.keys,
                    "tcp: folder of keys that `ringside keys` has written; then only holders of a "
                    "worker's key are served, and messages are encrypted"});
  std::sort(fields.begin(), fields.end(),
            [](const Field& a, const Field& b) { return a.name < b.name; });
  return fields;
}

void check_reach(std::string_view scheme, TransportKind transport, const Reach& reach) {
  const std::pair<std::string_view, const std::string&> given[] = {
      {"address", reach.address}, {"advertise", reach.advertise}, {"keys", reach.keys}};
  for (const auto& [name, value] : given)
    if (!value.empty() && transport != TransportKind::tcp)
      throw Error(
          "scheme.{0}.{1} = \"{2}\": only transport tcp has {1}; set scheme.{0}.transport = "
          "\"tcp\", or leave {1} out",
          scheme, name, value);
  in_addr address{};
  if (!reach.address.empty() && inet_pton(AF_INET, reach.address.c_str(), &address) != 1)
    throw Error(
        "scheme.{}.address = \"{}\" is no IPv4 address; name one of this machine's, as in "
        "192.168.1.5, or 0.0.0.0 for all of them",
        scheme, reach.address);
  const bool on_loopback = reach.address.empty() || ntohl(address.s_addr) >> 24 == 127;
  if (!on_loopback && reach.keys.empty())
    throw Error(
        "scheme.{}.address = \"{}\": other machines could connect; make keys with `ringside "
        "keys DIR` and set scheme.{}.keys to the folder",
        scheme, reach.address, scheme);
  if (!reach.address.empty() && address.s_addr == INADDR_ANY && reach.advertise.empty())
    throw Error(
        "scheme.{}.address = \"{}\" is no address to connect to; set scheme.{}.advertise to "
        "the one by which workers reach the servers",
        scheme, reach.address, scheme);
  if (reach.address.empty() && !reach.advertise.empty())
    throw Error(
        "scheme.{}.advertise = \"{}\": the servers listen on 127.0.0.1 alone; set "
        "scheme.{}.address too",
        scheme, reach.advertise, scheme);
}

}  // namespace ringside::ps
