// ringside keys
#include <iostream>

#include "core/base/error.h"
#include "experiments/tools/cli/commands.h"
#include "ps/transport/zmq/keys.h"

namespace ringside {

int keys_command(const Arguments& arguments) {
  try {
    ps::write_keys(arguments.keys, arguments.keyed_workers);
  } catch (const Error& error) {
    return complain(wrong_input, error.what());
  }
  std::cout << fmt::format(
      "{0} has the keys of the servers and of {1} workers. Set scheme.ps.keys (or scheme.dp.keys) "
      "to this folder, or say `ringside bench ps --keys`.\nServers and schedulers need "
      "server.secret and all *.public; worker W needs worker-W.secret, "
      "worker-W.public and server.public.\n",
      arguments.keys, arguments.keyed_workers);
  return ok;
}

}  // namespace ringside
