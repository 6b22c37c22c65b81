// ringside keys
#include <iostream>

#include "core/base/error.h"
#include "experiments/tools/cli/command.h"
#include "ps/transport/zmq/keys.h"

namespace ringside::tools::cli {

namespace {

struct KeysArguments {
  std::string folder;
  int workers = 16;
};

int make_keys(const KeysArguments& arguments) {
  try {
    ps::write_keys(arguments.folder, arguments.workers);
  } catch (const Error& error) {
    return complain(wrong_input, error.what());
  }
  std::cout << fmt::format(
      "{0} has the keys of the servers and of {1} workers. Set scheme.ps.keys (or scheme.dp.keys) "
      "to this folder, or say `ringside bench ps --keys`.\nServers and schedulers need "
      "server.secret and all *.public; worker W needs worker-W.secret, "
      "worker-W.public and server.public.\n",
      arguments.folder, arguments.workers);
  return ok;
}

}  // namespace

Execute keys_command(CommandOptions& options) {
  options.summary(
      "write the keys by which the servers and workers of several machines "
      "authenticate each other (see scheme.ps.keys, scheme.dp.keys and bench ps "
      "--keys)");
  const auto arguments = std::make_shared<KeysArguments>();
  options
      .add("DIR", arguments->folder,
           "the folder to write to, which no other user may read; keys that are there are not "
           "overwritten")
      .required();
  options.add("--workers", arguments->workers, "the most workers of a run")
      .between(1, 100'000)
      .type("N")
      .shows_default();
  return [arguments](const Process&) { return make_keys(*arguments); };
}

}  // namespace ringside::tools::cli
