// Declaration of commands, their exit statuses, and the start of ranks.
#pragma once

#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "core/plan/measured_speeds.h"
#include "experiments/runner/run/run.h"
#include "experiments/tools/cli/cli_options.h"
#include "experiments/tools/cli/output_stream.h"
#include "experiments/tools/cli/process.h"

namespace ringside::tools::cli {

/// The execution of a command whose options have been read. Returns the exit status. A command is
/// one file, command_NAME.cc, with a struct of its arguments, the function that declares them and
/// returns this, and the code that executes it; commands.cc lists these functions.
using Execute = std::function<int(const Process&)>;

inline constexpr int ok = 0, run_failed = 1, wrong_input = 2, was_interrupted = 130;
inline constexpr int has_regressed = 3;  // of `diff`

/// Prints `what` as one line on standard error, and returns `status`.
int complain(int status, const std::string& what);
/// Throws Error if this program may be executed, but not read (mode 111): the system then hides the
/// open files of its processes from others (/proc/PID/fd), through which ranks share memory.
void check_readable(const Process& process);
/// The settings with which this process starts its ranks. `errors` takes the text that ranks write
/// to standard error, and must outlive them.
runner::RankStart rank_start(const Process& process, std::ostream& errors);
/// Blocks until the reader of standard output has all of `out`, and returns `status`. If the output
/// fails, prints the cause and returns the exit status for that failure.
int finish(OutputStream& out, int status);
/// Lets this process open as many files as the system allows. The customary limit of 1024 is for
/// programs that use select(). A server that awaits workers needs room for strangers too
/// (ps/transport/zmq/listener.h). Returns the number of files.
std::int64_t raise_the_limit_of_open_files();
/// The environment in which these runs are made.
nlohmann::ordered_json environment_of(const Process& process, const std::vector<RunPlan>& plans);
/// Measures the speeds for which some of `runs` wait, with a note on standard error, and adds them
/// to `speeds`. `agents` start the ranks of runs on several hosts. Blocks. Returns false if the
/// user interrupts. Throws Error for speeds that cannot be measured.
bool measure_missing_speeds(const std::vector<RunPlan>& runs, int most_attempts,
                            const Process& process, const runner::Agents& agents,
                            std::vector<MeasuredSpeeds>& speeds);
/// Prints on standard error the number of samples of each worker in a step, once for each unequal
/// division of the steps of `runs`.
void say_shares(const std::vector<RunPlan>& runs, const Process& process);
/// The file that `calibrate` writes for devices of this kind on this machine and `compare` looks
/// for, in the folder of results.
std::string machine_file(const std::string& results, int hosts = 1,
                         const std::string& device = "cpu");

}  // namespace ringside::tools::cli
