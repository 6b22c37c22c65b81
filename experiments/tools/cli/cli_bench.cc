// The commands that measure a part of the program by itself.
#include <fmt/format.h>

#include "experiments/tools/cli/cli_commands.h"

namespace ringside {

void add_bench_commands(CLI::App& app, Arguments& arguments, const Process& process,
                        Commands& commands) {
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
           "native, ring, tree and so on (see `ringside list algorithms`); default: all but auto "
           "and library, with --beside or --device cuda native alone")
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
          "cpu, or cuda: NCCL between GPUs of this machine, which ranks take in turn; default: cpu")
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
      ->add_option(
          "--placement", arguments.placement,
          "dedicated: servers have processes of their own; colocated: they are in those of "
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
  commands.push_back({bench_ps, [&] { return bench_ps_command(arguments, process); }, true});
  commands.push_back({bench_comm, [&] { return bench_comm_command(arguments, process); }, true});
}

}  // namespace ringside
