// The options of commands that several hosts can carry out.
#include "experiments/tools/cli/cli_commands.h"

namespace ringside {

void add_job(CLI::App& command, JobArguments& job) {
  command
      .add_option("--advertise", job.advertise,
                  "under a launcher: the address or interface of this host by which other hosts "
                  "reach it; without it the one by which this host reaches the leader")
      ->type_name("ADDRESS");
  command
      .add_option("--join-timeout", job.join_timeout_s,
                  "under a launcher: how long the processes wait for each other, in seconds")
      ->type_name("SECONDS")
      ->check(CLI::Range(1.0, 86400.0));
}

void add_seat(CLI::App& command, JobArguments& job) {
  command
      .add_option("--keys", job.keys,
                  "under a launcher on several hosts: the folder of the job's keys, as `ringside "
                  "keys` makes it, with a worker for every process")
      ->type_name("DIR");
  command
      .add_option("--slots", job.slots,
                  "under a launcher: how many workers this process may start at once; without it "
                  "one, or as many as PET_NPROC_PER_NODE says")
      ->type_name("N")
      ->check(CLI::Range(1, 1024));
}

CLI::Option* add_hosts(CLI::App& command, JobArguments& job) {
  command
      .add_option("--ssh", job.ssh,
                  "what runs a command on a host, with its options, as in 'ssh -p 2222'")
      ->type_name("COMMAND");
  return command
      .add_option("--hosts", job.hosts,
                  "the hosts, each with the number of workers that it may have at once, as in "
                  "node1:4,node2:4; ssh starts an agent on each")
      ->type_name("HOST:N,...");
}

}  // namespace ringside
