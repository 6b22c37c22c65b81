// The commands of the program: each reads its arguments, works, and returns the exit status.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "experiments/cli/output_stream.h"
#include "experiments/cli/process.h"
#include "experiments/config/config.h"
#include "experiments/run/run.h"

namespace ringside {

inline constexpr int ok = 0, run_failed = 1, wrong_input = 2, was_interrupted = 130;

/// What the command line said.
struct Arguments {
  std::string file;
  std::vector<std::string> overrides;
  std::vector<std::string> schemes;
  std::vector<std::int64_t> worlds;
  bool resume = false;
  std::string results = "results";
  std::string scheme;
  int world = 1;
  std::string output;
  std::string save;
  std::int64_t threads = 1;
  std::string list;
  int socket = -1;
};

int compare_command(const Arguments& arguments, const Process& process);
int train_command(const Arguments& arguments, const Process& process);
int calibrate_command(const Arguments& arguments);
int list_command(const Arguments& arguments);
int doctor_command();
/// One rank of a run, or all of a simulated one: what launch() starts.
int rank_command(const Arguments& arguments);

// ---- what they share

/// Says why on one line of standard error, and returns `status`.
int complain(int status, const std::string& what);
/// How a process starts its ranks; `errors`, which takes what they write, outlives them.
RankStart rank_start(const Process& process, std::ostream& errors);
/// Blocks until the reader of standard output has all of `out`. Returns `status` then, else says
/// why not and returns the status of that.
int finish(OutputStream& out, int status);
nlohmann::ordered_json environment_of(const Process& process, const RunPlan& plan);
/// Where `calibrate` writes and `compare` looks for this machine: in the folder of results.
std::string machine_file(const std::string& results);

}  // namespace ringside
