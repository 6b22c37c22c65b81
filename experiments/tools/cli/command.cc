#include "experiments/tools/cli/command.h"

#include <fmt/ranges.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <iostream>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>
#include <vector>

#include "core/base/counted.h"
#include "core/base/error.h"
#include "core/base/utf8.h"
#include "core/plan/device_traits.h"
#include "experiments/runner/plan/measurements.h"
#include "experiments/runner/results/environment.h"
#include "experiments/runner/run/measure_speeds.h"

namespace ringside::tools::cli {

int complain(int status, const std::string& what) {
  std::string line = what;
  std::replace(line.begin(), line.end(), '\n', ' ');
  std::cerr << "ringside: " << line << std::endl;
  return status;
}

std::int64_t raise_the_limit_of_open_files() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return std::numeric_limits<std::int64_t>::max();
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
  return static_cast<std::int64_t>(
      std::min<rlim_t>(limit.rlim_max, std::numeric_limits<std::int64_t>::max()));
}

void check_readable(const Process& process) {
  if (access(process.program.c_str(), R_OK) == 0) return;
  const int cause = errno;
  throw Error(
      "the program {} may not be read ({}), and ranks reach each other's memory only if it may; "
      "run `chmod +r` on it",
      utf8_text(std::filesystem::read_symlink(process.program).string()), std::strerror(cause));
}

runner::RankStart rank_start(const Process& process, std::ostream& errors) {
  return {{process.program, {"rank"}, process.environment},
          process.interrupted,
          [&errors](const std::string& text) { errors << text << std::flush; }};
}

int finish(OutputStream& out, int status) {
  const int cause = out.finish();
  if (cause == 0) return status;
  if (cause == ECANCELED) return complain(was_interrupted, "interrupted");
  return complain(run_failed, not_shown(cause));
}

nlohmann::ordered_json environment_of(const Process& process, const std::vector<RunPlan>& plans) {
  const bool on_gpus =
      std::any_of(plans.begin(), plans.end(), [](const RunPlan& plan) { return gpus(plan) > 0; });
  return runner::describe_environment(
      process.environment, {std::filesystem::canonical(process.program), process.built_commit},
      on_gpus);
}

bool measure_missing_speeds(const std::vector<RunPlan>& runs, int most_attempts,
                            const Process& process, const runner::Agents& agents,
                            std::vector<MeasuredSpeeds>& speeds) {
  const std::vector<RunPlan> missing = runner::missing_measurements(runs);
  OutputStream errors(STDERR_FILENO, process.interrupted);
  runner::RankStart start = rank_start(process, errors);
  start.agents = agents;
  const runner::RunMaker maker = runner::run_maker(start, most_attempts);
  for (const RunPlan& plan : missing) {
    errors << fmt::format("Measuring the speeds of {}, {}", counted(plan.world, "worker"),
                          counted(plan.train.steps, "step"))
           << std::endl;
    const auto measured = runner::measure_speeds(plan, maker);
    if (!measured) return false;
    errors << "Speeds: " << runner::text_of(measured->speeds)
           << (measured->disturbance.empty() ? "" : "; DISTURBED: " + measured->disturbance)
           << std::endl;
    speeds.push_back(measured->speeds);
  }
  return true;
}

void say_shares(const std::vector<RunPlan>& runs, const Process& process) {
  std::set<std::vector<std::int64_t>> shares;
  for (const RunPlan& run : runs)
    if (!run.train.weights.empty()) shares.insert(run.train.weights);
  OutputStream errors(STDERR_FILENO, process.interrupted);
  for (const std::vector<std::int64_t>& samples : shares)
    errors << fmt::format("Shares of {}: {} samples of each micro-batch",
                          counted(static_cast<std::int64_t>(samples.size()), "worker"),
                          fmt::join(samples, ", "))
           << std::endl;
}

std::string machine_file(const std::string& results, int hosts, const std::string& device) {
  if (!device_traits(device).on_processor) return fmt::format("{}/{}.toml", results, device);
  return results + (hosts > 1 ? "/hosts.toml" : "/machine.toml");
}

}  // namespace ringside::tools::cli
