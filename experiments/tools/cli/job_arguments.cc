#include "experiments/tools/cli/job_arguments.h"

namespace ringside::tools::cli {

void add_job(CommandOptions& options, JobArguments& job) {
  options
      .add("--advertise", job.advertise,
           "under a launcher: the address or interface of this host by which other hosts reach it; "
           "without it the one by which this host reaches the leader")
      .type("ADDRESS");
  options
      .add("--join-timeout", job.join_timeout_s,
           "under a launcher: seconds for which the processes wait for each other")
      .type("SECONDS")
      .between(1.0, 86400.0);
}

void add_launched(CommandOptions& options, JobArguments& job) {
  options
      .add("--keys", job.keys,
           "under a launcher on several hosts: the folder of the job's keys, as `ringside keys` "
           "makes it, with a worker for every process")
      .type("DIR");
  options
      .add("--slots", job.slots,
           "under a launcher: number of workers that this process may start at once; "
           "without it one, or the number in PET_NPROC_PER_NODE")
      .type("N")
      .between(1, 1024);
}

Option add_hosts(CommandOptions& options, JobArguments& job) {
  options
      .add("--ssh", job.ssh,
           "the program that runs a command on a host, with its options, as in 'ssh -p "
           "2222'")
      .type("COMMAND");
  return options
      .add("--hosts", job.hosts,
           "the hosts, each with the number of workers that it may have at once, as in "
           "node1:4,node2:4; ssh starts an agent on each")
      .type("HOST:N,...");
}

}  // namespace ringside::tools::cli
