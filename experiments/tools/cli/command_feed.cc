// ringside feed
#include <unistd.h>

#include <cerrno>
#include <iostream>
#include <nlohmann/json.hpp>

#include "core/base/error.h"
#include "core/base/error_text.h"
#include "core/base/utf8.h"
#include "experiments/runner/registry/plugins.h"
#include "experiments/runner/registry/registry.h"
#include "experiments/runner/run/feed.h"
#include "experiments/tools/cli/command.h"

namespace ringside::tools::cli {
namespace {

void write_to_standard_output(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = write(STDOUT_FILENO, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) throw Error("the reader of the feed has ended");
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
}

/// Reads from standard input the first message of launch() to a rank, and writes to standard output
/// the inputs of this rank of another program (experiments/runner/run/feed.h). That program starts
/// this command.
int feed_rank() {
  try {
    std::string line;
    std::getline(std::cin, line);
    const auto told = nlohmann::json::parse(line);
    runner::feed(runner::read_plan(told.at("plan")), told.at("rank").get<int>(),
                 write_to_standard_output);
    return ok;
  } catch (const std::exception& error) {
    const nlohmann::json said = {
        {"kind", "error"}, {"message", utf8_text(error_text(error))}, {"bytes", 0}};
    const std::string text = said.dump() + '\n';
    try {
      write_to_standard_output(std::as_bytes(std::span(text)));
    } catch (const Error&) {  // the reader has ended
    }
    return run_failed;
  }
}

}  // namespace

Execute feed_command(CommandOptions& options) {
  options.summary("initial values and data of a rank");
  options.hide();
  return [](const Process&) { return feed_rank(); };
}

}  // namespace ringside::tools::cli
