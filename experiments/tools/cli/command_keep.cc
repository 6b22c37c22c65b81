// ringside keep

#include <memory>
#include <string>
#include <vector>

#include "core/launch/subprocess_group.h"
#include "experiments/tools/cli/command.h"

namespace ringside::tools::cli {

Execute keep_command(CommandOptions& options) {
  options.summary("the keeper of programs of others");
  options.hide();
  const auto words = std::make_shared<std::vector<std::string>>();
  options.take_rest(*words);
  return [words](const Process&) { return keep(*words); };
}

}  // namespace ringside::tools::cli
