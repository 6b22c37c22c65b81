#include "experiments/cli/cli.h"

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <iostream>
#include <string_view>

#include "core/base/error.h"
#include "core/base/explain.h"
#include "experiments/cli/commands.h"

namespace ringside {
namespace {

constexpr std::string_view version = "ringside 0.1";

void add_settings(CLI::App& command, Arguments& arguments) {
  command
      .add_option("--set", arguments.overrides,
                  "override a key of the file, as in train.steps=100, data.path=text.txt or "
                  "scheme.ps.servers=4; may be given several times")
      ->type_name("TABLE.KEY=VALUE")
      ->allow_extra_args(false);
}

void add_experiment(CLI::App& command, Arguments& arguments) {
  command.add_option("FILE", arguments.file, "the experiment file (TOML)")->required();
  add_settings(command, arguments);
}

void add_results(CLI::App& command, Arguments& arguments) {
  command
      .add_option("--results", arguments.results,
                  "write results to DIR/NAME, where NAME is the experiment's name")
      ->type_name("DIR")
      ->capture_default_str();
}

int run_command(const Process& process) {
  Arguments arguments;
  CLI::App app(
      "Trains one model on N workers with every scheme of keeping them in step, and shows the "
      "results side by side.\n\n"
      "Begin with:  ringside compare experiments/quickstart.toml\n",
      "ringside");
  app.set_version_flag("--version", std::string(version), "print the version");
  app.set_help_flag("--help,-h", "print this help; `ringside COMMAND --help` says more");
  app.require_subcommand(1);

  CLI::App* compare = app.add_subcommand("compare",
                                         "run every scheme and case of an experiment with every "
                                         "number of workers, and print one table");
  add_experiment(*compare, arguments);
  compare
      ->add_option("--schemes", arguments.schemes,
                   "run only these schemes, as in ddp,fsdp, and leave out cases of other schemes")
      ->delimiter(',')
      ->type_name("A,B")
      ->allow_extra_args(false);
  compare
      ->add_option("--worlds", arguments.worlds,
                   "run only with these numbers of workers, as in 1,2, in place of those of the "
                   "file and of its cases")
      ->delimiter(',')
      ->type_name("N,M")
      ->allow_extra_args(false);
  compare
      ->add_option("--case", arguments.cases,
                   "add a case to the comparison: a scheme with settings of its own, as in 'ps: "
                   "scheme.ps.servers=1, train.micro_batch=2'; among the settings may be label, "
                   "world and worlds; may be given several times; for a product of lists set "
                   "compare.sweep.KEY='[A, B]'")
      ->type_name("SCHEME: KEY=VALUE, ...")
      ->allow_extra_args(false);
  compare->add_flag("--resume", arguments.resume,
                    "keep the rows of the results folder, and make only the missing runs; "
                    "without --resume, earlier results are moved to its subfolders before-1, "
                    "before-2, ...");
  add_results(*compare, arguments);

  CLI::App* validate = app.add_subcommand(
      "validate",
      "compare what several experiments ask for, and print one table: what was published of their "
      "cases, and what came out");
  validate
      ->add_option(
          "FILES", arguments.files,
          "experiment files (TOML) whose cases have published_ms, published_per_s and so on, as "
          "experiments/validate/*.toml, and files of collectives, as nccl-tests.toml there, "
          "to which settings do not apply")
      ->required();
  add_settings(*validate, arguments);
  add_results(*validate, arguments);

  CLI::App* reproduce =
      app.add_subcommand("reproduce",
                         "make published tables anew: print what was published, what came out of "
                         "simulated clusters or "
                         "of this machine, how far they are apart, and what each table assumes");
  reproduce->add_option(
      "TABLES", arguments.tables,
      "names of tables, as in T3 V6, or all; without a name the tables are listed");
  add_settings(*reproduce, arguments);
  reproduce->add_flag("--resume", arguments.resume,
                      "keep what is in the results folder, and make only the missing runs");
  reproduce
      ->add_option("--results", arguments.results,
                   "write results to DIR/reproduce, with these tables in tables.md and tables.json")
      ->type_name("DIR")
      ->capture_default_str();
  reproduce
      ->add_option("--tables", arguments.index,
                   "the index of the tables (TOML): for each its experiment files and what it "
                   "assumes")
      ->type_name("FILE")
      ->capture_default_str();
  CLI::App* advise = app.add_subcommand(
      "advise",
      "simulate the ways of training a model on a cluster, and say which is best and why: scheme, "
      "degree of sharding, precision, recomputation, offload, micro-batches, buckets");
  advise
      ->add_option("MODEL", arguments.file,
                   "a preset (see `ringside list models`), or an experiment file, whose training "
                   "stays as it is but for what is chosen")
      ->required();
  add_settings(*advise, arguments);
  advise
      ->add_option("--cluster", arguments.cluster,
                   "the cluster file; default: that of the experiment file, or this machine as "
                   "`ringside calibrate` measured it")
      ->type_name("FILE");
  advise
      ->add_option("--batch", arguments.batch,
                   "the global batch; default: that of the experiment file")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 24))
      ->type_name("SAMPLES");
  advise
      ->add_option("--worlds", arguments.worlds,
                   "numbers of workers to consider; default: all devices, and with --deadline also "
                   "half of the machines, a quarter and so on")
      ->delimiter(',')
      ->type_name("N,M")
      ->check(CLI::Range(1, 1'000'000))
      ->allow_extra_args(false);
  advise
      ->add_option("--precisions", arguments.precisions,
                   "fp32, tf32, bf16, fp16: precisions to consider; default: that of the "
                   "experiment file; for presets bf16 or fp16, and tf32 or fp32")
      ->delimiter(',')
      ->type_name("A,B")
      ->allow_extra_args(false);
  advise->add_option("--price", arguments.price, "of a device and hour, in any currency")
      ->check(CLI::PositiveNumber)
      ->type_name("P");
  advise->add_option("--samples", arguments.samples, "samples that are to be trained")
      ->check(CLI::PositiveNumber)
      ->type_name("N");
  advise
      ->add_option("--deadline", arguments.deadline_h,
                   "hours within which they are to be trained: the fewest hours of devices win "
                   "that meet it")
      ->check(CLI::PositiveNumber)
      ->type_name("HOURS");
  advise
      ->add_option("--reserve", arguments.reserve_gb,
                   "GB of each GPU that stay free for its context, NCCL's buffers and fragments")
      ->check(CLI::NonNegativeNumber)
      ->type_name("GB")
      ->capture_default_str();
  advise->add_option("--seconds", arguments.seconds, "for which candidates are simulated")
      ->check(CLI::PositiveNumber)
      ->type_name("S")
      ->capture_default_str();
  advise->add_option("--top", arguments.shown, "lines of the table")
      ->check(CLI::Range(1, 1000))
      ->type_name("N")
      ->capture_default_str();
  advise
      ->add_option("--cases", arguments.written,
                   "how many of the best become cases of the experiment file that is written to "
                   "DIR/advise")
      ->check(CLI::Range(1, 100))
      ->type_name("N")
      ->capture_default_str();
  advise->add_flag("--explain", arguments.explain, "say of every other candidate why it loses");
  add_results(*advise, arguments);

  CLI::App* train =
      app.add_subcommand("train", "run one scheme once, and print its loss as it goes");
  add_experiment(*train, arguments);
  train->add_option("--scheme", arguments.scheme, "the scheme to run (see `ringside list`)")
      ->type_name("NAME")
      ->required();
  train->add_option("--world", arguments.world, "number of workers")
      ->type_name("N")
      ->capture_default_str();
  train
      ->add_option("--output", arguments.output,
                   "write a JSON file with the run's figures and its environment")
      ->type_name("FILE");
  train
      ->add_option(
          "--save", arguments.save,
          "write the trained weights to a safetensors file, which train.initial_weights can "
          "read; tensors have the names that Hugging Face or torchvision gives them, if "
          "either has the model")
      ->type_name("FILE");

  CLI::App* calibrate = app.add_subcommand("calibrate",
                                           "measure this machine, and write a cluster file for "
                                           "predicting runs on this machine; or fit a "
                                           "cluster to figures that were measured on one like it");
  CLI::Option* calibrated =
      calibrate
          ->add_option("files", arguments.calibrated,
                       "experiment files that are to be predicted: the operations of their models "
                       "are timed as they are, instead of being told from those of other models")
          ->type_name("FILES");
  CLI::Option* threads =
      calibrate->add_option("--threads", arguments.threads, "threads of a rank (device.threads)")
          ->type_name("N")
          ->capture_default_str();
  calibrate
      ->add_option("--from", arguments.files,
                   "fit the cluster that these files name: experiment files whose cases say what "
                   "was published of one device, and files of collectives, whose tables may be the "
                   "output of nccl-tests (as `validate` reads them)")
      ->type_name("FILES")
      ->excludes(threads)
      ->excludes(calibrated);
  calibrate
      ->add_option("--cluster", arguments.cluster,
                   "with --from: the cluster file whose figures count, where there are several")
      ->type_name("FILE");
  calibrate
      ->add_option("--results", arguments.results,
                   "write DIR/machine.toml, which `compare` with the same --results finds; with "
                   "--from, DIR/CLUSTER-fitted.toml")
      ->type_name("DIR")
      ->capture_default_str();

  CLI::App* bench = app.add_subcommand("bench", "measure a part of the program by itself");
  bench->require_subcommand(1);
  CLI::App* bench_comm = bench->add_subcommand(
      "comm",
      "collectives by operation, size, algorithm and number of ranks, between processes of this "
      "machine or on a simulated cluster, in the columns of nccl-tests");
  CLI::App* bench_ps = bench->add_subcommand(
      "ps",
      "push and pull through parameter servers by size, workers, servers, transport and "
      "consistency, between processes of this machine, in the columns of nccl-tests; with "
      "DMLC_ROLE set to worker, server or scheduler, as one process of ps-lite's environment");
  CLI::App* benched = bench_comm;  // the one that gets the next options
  const auto add_list = [&](const char* option, auto& values, const char* what) {
    return benched->add_option(option, values, what)->delimiter(',')->allow_extra_args(false);
  };
  const auto add_common = [&](const char* who) {
    benched
        ->add_option("--rounds", arguments.rounds,
                     fmt::format("turns of every {}; default: 20, and 11 above 16 MB", who))
        ->check(CLI::Range(1, 1'000'000))
        ->type_name("N");
    benched->add_option("--timeout", arguments.timeout_s, "seconds to wait for a rank; default: 60")
        ->check(CLI::PositiveNumber)
        ->type_name("S");
    benched->add_option("--json", arguments.json, "also write the figures to this file")
        ->type_name("FILE");
  };
  add_list("--operations", arguments.operations,
           "all_reduce, reduce_scatter, all_gather, broadcast or all_to_all; default: all_reduce")
      ->type_name("A,B");
  add_list("--algorithms", arguments.algorithms,
           "native, ring, tree and so on (see `ringside list algorithms`); default: all but auto, "
           "with --beside or --device cuda native alone")
      ->type_name("A,B");
  add_list("--worlds", arguments.worlds, "numbers of ranks; default: 2")->type_name("N,M");
  add_list("--sizes", arguments.sizes,
           "bytes of the whole array, as in 4KB,1MB with 1 KB = 1024 bytes; default: 1KB to 64MB")
      ->transform(CLI::AsSizeValue(false))
      ->type_name("A,B");
  add_list("--beside", arguments.beside,
           "other libraries, measured in turn with ours: openmpi, openmpi-segmented-ring, mpich, "
           "gloo; `installed`: all that are there; NAME=COMMAND: a driver of one's own")
      ->type_name("A,B");
  bench_comm
      ->add_option(
          "--device", arguments.device,
          "cpu, or cuda: NCCL between GPUs of this machine, one for each rank; default: cpu")
      ->type_name("KIND");
  add_common("algorithm and library");
  bench_comm
      ->add_option("--cluster", arguments.cluster,
                   "simulate the first devices of this cluster (a cluster file)")
      ->type_name("FILE");

  benched = bench_ps;
  add_list("--workers", arguments.workers, "numbers of workers; default: 1")->type_name("N,M");
  add_list("--servers", arguments.servers, "numbers of servers; default: 1")->type_name("N,M");
  add_list("--sizes", arguments.sizes,
           "bytes of the array that every worker pushes and pulls, as in 64KB,1MB with 1 KB = 1024 "
           "bytes; default: 4KB to 64MB")
      ->transform(CLI::AsSizeValue(false))
      ->type_name("A,B");
  add_list("--transports", arguments.transports,
           "as scheme.ps.transport (see `ringside list keys`); default: all")
      ->type_name("A,B");
  add_list("--consistencies", arguments.consistencies,
           "bsp, ssp or asp, as scheme.ps.consistency; default: bsp")
      ->type_name("A,B");
  bench_ps
      ->add_option("--placement", arguments.placement,
                   "dedicated: servers have processes of their own; beside: they are in those of "
                   "the first workers")
      ->type_name("WHERE")
      ->capture_default_str();
  bench_ps
      ->add_option("--partition", arguments.partition,
                   "the most bytes of the array that travel in one message, as in 256KB; default: "
                   "1MB")
      ->transform(CLI::AsSizeValue(false))
      ->type_name("SIZE");
  bench_ps
      ->add_option("--keys", arguments.bench_keys,
                   "transport tcp with the keys of this folder, which `ringside keys` has written: "
                   "messages are encrypted, and with DMLC_ROLE the processes may be of several "
                   "hosts")
      ->type_name("DIR");
  bench_ps
      ->add_option("--address", arguments.address,
                   "with DMLC_ROLE and --keys: the IPv4 address on which this server or scheduler "
                   "listens; default: DMLC_NODE_HOST, or the one by which a server reaches the "
                   "scheduler, DMLC_PS_ROOT_URI for the scheduler")
      ->type_name("IP");
  bench_ps
      ->add_option("--advertise", arguments.advertise,
                   "the address to which workers connect, if it is not the one of --address")
      ->type_name("IP");
  bench_ps->add_option("--threads", arguments.threads, "threads of a rank (device.threads)")
      ->check(CLI::Range(1, 1024))
      ->type_name("N")
      ->capture_default_str();
  add_common("way");

  CLI::App* keys = app.add_subcommand(
      "keys",
      "write the keys by which the servers and workers of several machines know each other (see "
      "scheme.ps.keys, scheme.dp.keys and bench ps --keys)");
  keys->add_option("DIR", arguments.keys,
                   "the folder to write to, which no other user may read; keys that are there are "
                   "not overwritten")
      ->required();
  keys->add_option("--workers", arguments.keyed_workers, "the most workers of a run")
      ->check(CLI::Range(1, 100'000))
      ->type_name("N")
      ->capture_default_str();
  CLI::App* list = app.add_subcommand(
      "list", "what this build has: schemes, models, data sets, devices, and all keys");
  list->add_option(
      "PART", arguments.list,
      "list only one of: schemes, models, data, devices, frameworks, messages, algorithms, keys");
  CLI::App* doctor = app.add_subcommand(
      "doctor", "what this machine has: devices, libraries, and what to install for the rest");
  // launch() starts this command; group "" hides it from the help.
  CLI::App* rank = app.add_subcommand("rank", "one rank of a run")->group("");
  rank->add_option("SOCKET", arguments.socket)->required();

  try {
    // CLI11 wants the arguments in reverse order.
    app.parse(std::vector<std::string>(process.arguments.rbegin(), process.arguments.rend()));
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);
    return complain(wrong_input, fmt::format("{}; see `ringside --help`", error.what()));
  }
  try {
    if (compare->parsed()) return compare_command(arguments, process);
    if (validate->parsed()) return validate_command(arguments, process);
    if (reproduce->parsed()) return reproduce_command(arguments, process);
    if (advise->parsed()) return advise_command(arguments, process);
    if (train->parsed()) return train_command(arguments, process);
    if (calibrate->parsed())
      return arguments.files.empty() ? calibrate_command(arguments, process)
                                     : fit_command(arguments, process);
    if (bench_ps->parsed()) return bench_ps_command(arguments, process);
    if (bench->parsed()) return bench_comm_command(arguments, process);
    if (keys->parsed()) return keys_command(arguments);
    if (list->parsed()) return list_command(arguments);
    if (doctor->parsed()) return doctor_command();
    return rank_command(arguments, process);
  } catch (const std::exception& error) {
    return complain(run_failed, explain(error));
  }
}

}  // namespace

int run_command_line(const Process& process) {
  const int status = run_command(process);
  std::cout.flush();
  if (std::cout || status != ok) return status;
  // The stream does not keep the cause of its failure. One more line normally fails in the same way
  // and sets errno.
  const bool fails_again = write(STDOUT_FILENO, "\n", 1) < 0;
  return complain(run_failed, not_shown(fails_again ? errno : EIO));
}

}  // namespace ringside
