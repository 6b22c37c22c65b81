// The commands of the program. Each reads its arguments, does its work, and returns the exit
// status.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "core/plan/measured_speeds.h"
#include "experiments/runner/config/config.h"
#include "experiments/runner/run/run.h"
#include "experiments/tools/cli/job_arguments.h"
#include "experiments/tools/cli/output_stream.h"
#include "experiments/tools/cli/process.h"

namespace ringside {

inline constexpr int ok = 0, run_failed = 1, wrong_input = 2, was_interrupted = 130;
inline constexpr int has_regressed = 3;  // of `diff`

/// The values of the command line.
struct Arguments {
  std::string file;
  std::vector<std::string> files;
  std::vector<std::string> tables;                                    // that `reproduce` makes anew
  std::string index = "experiments/published/reproduce/tables.toml";  // of these tables
  std::vector<std::string> calibrated;  // experiment files whose models `calibrate` times
  std::vector<std::string> overrides;
  std::vector<std::string> cases;
  std::vector<std::string> schemes;
  std::vector<std::int64_t> worlds;
  bool resume = false;
  bool mixed = false;  // keep rows of another program or machine
  std::string results = "results";
  std::string scheme;
  int world = 1;
  std::string output;
  std::string save;
  std::int64_t threads = 1;
  std::string list;
  std::vector<std::string> operations, algorithms, beside;
  std::vector<std::int64_t> workers, servers;
  std::vector<std::string> transports, consistencies;
  std::string placement = "dedicated";
  std::string bench_keys, address, advertise;
  std::int64_t partition = 0;
  std::vector<std::int64_t> sizes;
  std::string cluster;
  std::string device = "cpu";
  std::int64_t rounds = 0;
  double timeout_s = 60;
  std::string json;
  std::string keys;
  int keyed_workers = 16;
  int socket = -1;
  std::string world_of_mpi;           // of `stand-in` and `on`
  std::vector<int> stood_in_for;      // ranks
  std::vector<std::string> remote{};  // words of `on`: options of ssh, the host, the command
  std::int64_t batch = 0;
  std::vector<std::string> precisions;
  double price = 0, samples = 0, deadline_h = 0, reserve_gb = 1.5, seconds = 40;
  std::size_t shown = 8, written = 1;  // cases in the table and in the experiment file
  bool explain = false;
  bool events = false;                       // print a comparison's events as lines of JSON
  bool once = false;                         // `watch` prints the present state, and ends
  std::string folder_a, folder_b;            // that `diff` compares
  double threshold = 0.03, confidence = 95;  // a share, and percent
  std::string run, chakra;                   // of `trace`
  std::string figures;                       // the folder in which `report` draws them for papers
  std::string case_label;                    // of a case in a results folder; empty: all cases
  int only_world = 0;                        // 0: cases of any world
  bool trials = true;
  JobArguments job;
};

int compare_command(const Arguments& arguments, const Process& process);
/// Compares what arguments.files ask for, and prints what of it was published.
int validate_command(Arguments arguments, const Process& process);
/// Makes arguments.tables anew, and prints each beside what was published; says on standard error
/// how it goes.
int reproduce_command(Arguments arguments, const Process& process);
/// Simulates ways of training arguments.file and says which is best.
int advise_command(const Arguments& arguments, const Process& process);
/// Follows the comparison in the folder arguments.file.
int watch_command(const Arguments& arguments, const Process& process);
/// Compares two results folders, and prints what differs; has_regressed if something became worse.
int diff_command(const Arguments& arguments, const Process& process);
/// Says where the steps of the cases in the results folder arguments.file went.
int explain_command(const Arguments& arguments, const Process& process);
/// Makes one run on this host; refuses to be one of several processes of a launcher.
int train_command(const Arguments& arguments, const Process& process);
/// Writes report.html of the results folders arguments.files.
int report_command(const Arguments& arguments, const Process& process);
int calibrate_command(const Arguments& arguments, const Process& process);
/// Fits a cluster to the figures of arguments.files (experiments/tools/calibrate/cluster_fit.h).
int fit_command(const Arguments& arguments, const Process& process);
int bench_comm_command(const Arguments& arguments, const Process& process);
int bench_ps_command(const Arguments& arguments, const Process& process);
/// Says where the trace of a run of the folder arguments.file is, or writes it for other programs.
int trace_command(const Arguments& arguments);
int keys_command(const Arguments& arguments);
int list_command(const Arguments& arguments);
int doctor_command();
/// Runs one rank of a run, or all ranks of a simulated run. launch() starts this command.
int rank_command(const Arguments& arguments, const Process& process);
/// Stands in for a rank where MPI's launcher starts ranks, or has the leader of a job run a command
/// on another host, where it starts its daemons (experiments/runner/hosts/mpi_launch_shim.h).
int stand_in_command(const Arguments& arguments, const Process& process);
int on_command(const Arguments& arguments);
/// Reads from standard input what launch() tells a rank first, and writes to standard output what
/// this rank of another program computes with (experiments/runner/run/feed.h). That program starts
/// this command.
int feed_command();

// ---- helpers that the commands share

/// Prints `what` as one line on standard error, and returns `status`.
int complain(int status, const std::string& what);
/// Throws Error if this program may be executed, but not read (mode 111): the system then lets no
/// process look into one of its processes (/proc/PID/fd), and that is how ranks share memory.
void check_readable(const Process& process);
/// Says how this process starts its ranks. `errors` takes what the ranks write to standard error,
/// and must outlive them.
RankStart rank_start(const Process& process, std::ostream& errors);
/// Blocks until the reader of standard output has all of `out`, and returns `status`. If the output
/// fails, prints the cause and returns the exit status for that failure.
int finish(OutputStream& out, int status);
/// Lets this process open as many files as the system allows. The customary limit of 1024 is for
/// programs that use select(). A server that awaits workers needs room for strangers too
/// (ps/transport/zmq/listener.h). Returns how many files that are.
std::int64_t raise_the_limit_of_open_files();
/// The environment in which these runs are made.
nlohmann::ordered_json environment_of(const Process& process, const std::vector<RunPlan>& plans);
/// Measures the speeds for which some of `runs` wait, says so on standard error, and adds them to
/// `speeds`. `agents` start the ranks of runs on several hosts. Blocks. Returns false if the user
/// interrupts. Throws Error for speeds that cannot be measured.
bool measure_missing_speeds(const std::vector<RunPlan>& runs, int most_attempts,
                            const Process& process, const Agents& agents,
                            std::vector<MeasuredSpeeds>& speeds);
/// Says on standard error how many samples each worker has of a step, once for each way in which
/// the steps of `runs` are divided unequally.
void say_shares(const std::vector<RunPlan>& runs, const Process& process);
/// The file that `calibrate` writes for devices of this kind on this machine and `compare` looks
/// for, in the folder of results.
std::string machine_file(const std::string& results, int hosts = 1,
                         const std::string& device = "cpu");

}  // namespace ringside
