// The commands about this machine and this build.
#include "experiments/tools/cli/cli_commands.h"

namespace ringside {

void add_machine_commands(CLI::App& app, Arguments& arguments, const Process& process,
                          Commands& commands) {
  CLI::App* calibrate = app.add_subcommand("calibrate",
                                           "measure this machine, or the hosts of a job and their "
                                           "network, and write a cluster file for predicting runs "
                                           "there; or fit a cluster to figures that were measured "
                                           "on one like it");
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
      ->add_option(
          "--device", arguments.device,
          "cuda: the models of FILES are timed on a GPU, as if device.kind were cuda there")
      ->type_name("KIND")
      ->capture_default_str()
      ->excludes("--from");
  calibrate
      ->add_option("--cluster", arguments.cluster,
                   "with --device cuda: the cluster file of the machine in which the GPU is, whose "
                   "links, host, peaks and number of GPUs count; with --from: the cluster file "
                   "whose figures count, where there are several")
      ->type_name("FILE");
  calibrate
      ->add_option(
          "--results", arguments.results,
          "write DIR/machine.toml, DIR/cuda.toml with --device cuda, or DIR/hosts.toml for "
          "several hosts, which `compare` with the same --results finds; with --from, "
          "DIR/CLUSTER-fitted.toml")
      ->type_name("DIR")
      ->capture_default_str();

  add_job(*calibrate, arguments.job);
  add_seat(*calibrate, arguments.job);
  add_hosts(*calibrate, arguments.job);
  commands.push_back({calibrate,
                      [&] {
                        return arguments.files.empty() ? calibrate_command(arguments, process)
                                                       : fit_command(arguments, process);
                      },
                      true});

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
  commands.push_back({keys, [&] { return keys_command(arguments); }});

  CLI::App* list = app.add_subcommand(
      "list", "what this build has: schemes, models, data sets, devices, and all keys");
  list->add_option(
      "PART", arguments.list,
      "list only one of: schemes, models, data, devices, frameworks, messages, algorithms, keys");
  commands.push_back({list, [&] { return list_command(arguments); }});

  CLI::App* doctor = app.add_subcommand(
      "doctor", "what this machine has: devices, libraries, and what to install for the rest");
  commands.push_back({doctor, [] { return doctor_command(); }, true});

  // launch() starts this command; group "" hides it from the help.
  CLI::App* rank = app.add_subcommand("rank", "one rank of a run")->group("");
  rank->add_option("SOCKET", arguments.socket)->required();
  commands.push_back({rank, [&] { return rank_command(arguments, process); }});
  // Launchers of MPI start these two.
  CLI::App* stand_in = app.add_subcommand("stand-in", "in place of a rank")->group("");
  stand_in->add_option("WORLD", arguments.world_of_mpi)->required();
  stand_in->add_option("RANKS", arguments.stood_in_for)->required()->delimiter(',');
  commands.push_back({stand_in, [&] { return stand_in_command(arguments, process); }});
  CLI::App* on = app.add_subcommand("on", "in place of ssh")->group("")->prefix_command();
  on->add_option("WORLD", arguments.world_of_mpi)->required();
  commands.push_back({on, [&arguments, on] {
                        arguments.remote = on->remaining();
                        return on_command(arguments);
                      }});
  // Programs of experiments/python start this command.
  CLI::App* feed = app.add_subcommand("feed", "initial values and data of a rank")->group("");
  commands.push_back({feed, [] { return feed_command(); }});
}

}  // namespace ringside
