#include "experiments/cli/commands.h"

#include <algorithm>
#include <cerrno>
#include <iostream>
#include <nlohmann/json.hpp>

#include "core/base/error.h"
#include "experiments/results/environment.h"

namespace ringside {

int complain(int status, const std::string& what) {
  std::string line = what;
  std::replace(line.begin(), line.end(), '\n', ' ');
  std::cerr << "ringside: " << line << std::endl;
  return status;
}

RankStart rank_start(const Process& process, std::ostream& errors) {
  return {{process.program,
           {"rank"},
           process.environment,
           [&errors](const std::string& text) { errors << text << std::flush; }},
          process.interrupted};
}

int finish(OutputStream& out, int status) {
  const int cause = out.finish();
  if (cause == 0) return status;
  if (cause == ECANCELED) return complain(was_interrupted, "interrupted");
  return complain(run_failed, not_shown(cause));
}

nlohmann::ordered_json environment_of(const Process& process, const std::vector<RunPlan>& plans) {
  const bool on_gpus = std::any_of(plans.begin(), plans.end(),
                                   [](const RunPlan& plan) { return plan.device.kind == "cuda"; });
  return describe_environment(process.environment,
                              {std::filesystem::canonical(process.program), process.built_commit},
                              on_gpus);
}

std::string machine_file(const std::string& results) { return results + "/machine.toml"; }

}  // namespace ringside
