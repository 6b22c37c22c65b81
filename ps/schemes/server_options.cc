#include "ps/schemes/server_options.h"

#include "core/base/error.h"

namespace ringside::ps {

void check_port(std::string_view scheme, TransportKind transport, std::int64_t port,
                std::int64_t servers) {
  if (port != 0 && transport != TransportKind::tcp)
    throw Error("scheme.{}.port = {}: only transport tcp has ports", scheme, port);
  if (port < 0 || port + servers - 1 > 65535)
    throw Error(
        "scheme.{}.port = {}: the ports of {} servers must be from 1 to 65535; "
        "choose 0 for any free ports",
        scheme, port, servers);
}

}  // namespace ringside::ps
