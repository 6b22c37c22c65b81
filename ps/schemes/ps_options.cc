#include "ps/schemes/ps_options.h"

#include <utility>

#include "core/base/error.h"
#include "ps/schemes/consistency_plan.h"
#include "ps/schemes/ps_compression.h"

namespace ringside::ps {
namespace {

constexpr std::int64_t most_servers = 4096;
constexpr std::int64_t most_io_threads = 64;
constexpr double least_partition_mb = 1e-3, most_partition_mb = 1024;

void check_sum_group(const PsOptions& options, int world) {
  const std::string given = fmt::format("scheme.ps.sum_group = {}", options.sum_group);
  if (options.sum_group == 1) return;
  if (options.consistency != Consistency::bsp || options.backup_workers > 0)
    throw Error(
        "{} goes with consistency 'bsp' without backup workers alone: the workers of a group wait "
        "for each other at every unit; leave it out",
        given);
  if (options.partition_by != PartitionBy::parts)
    throw Error(
        "{}: each worker of a group pushes a part of every unit, so tensors are cut; leave "
        "scheme.ps.partition_by at 'parts'",
        given);
  if (world % sum_group_of(options, world) != 0)
    throw Error("{} does not divide world {}; choose a divisor", given, world);
}

}  // namespace

Fields fields_of(PsOptions& options) {
  Fields fields = {
      {"backup_workers", &options.backup_workers,
       "bsp: an update takes the first gradients of all workers but this many; later ones are "
       "dropped",
       Range::not_negative},
      {"communication_period", &options.communication_period,
       "easgd: steps of a worker from one exchange with the servers to the next; train.steps is a "
       "multiple of it",
       Range::positive},
      {"consistency", &options.consistency,
       "bsp: every worker begins a step with values that all workers' gradients of the step before "
       "have updated; ssp: values may lack the updates of the last staleness_bound steps; asp: "
       "every gradient updates the values when it comes, without waiting; easgd: workers train "
       "replicas of their own, which values on the servers hold together (elastic averaging)"},
      {"delay_compensation", &options.delay_compensation,
       "asp: factor L with which a gradient g is corrected for the updates since its worker read: "
       "g + L * g * g * (values now - values read); 0: none",
       Range::not_negative},
      {"equal_steps", &options.equal_steps,
       "asp, easgd: every worker does train.steps steps; else all together do train.steps times "
       "the number of workers"},
      {"io_threads", &options.io_threads,
       "tcp, ipc: threads of a rank that move bytes; more than one help a rank with several "
       "connections and cores to spare",
       Range::positive},
      {"moving_rate", &options.moving_rate,
       "easgd: share of their distance by which a worker and the centre each move in an exchange; "
       "0: 0.9 divided by the number of workers",
       Range::not_negative},
      {"partition_by", &options.partition_by,
       "what goes to one server: parts of partition_mb; or whole tensors, largest first (tensors) "
       "or in turn (round_robin), which are pushed and pulled in such parts"},
      {"partition_mb", &options.partition_mb,
       "units are pushed and pulled in parts of at most this size (MB, in fp32)", Range::positive},
      {"placement", &options.placement,
       "dedicated: processes of their own; colocated: within the workers' processes; mixed: one "
       "colocated with every worker and `servers` dedicated ones, which keep as much as makes all "
       "links equally busy"},
      {"port", &options.port,
       "tcp: port of the first server; the other servers take the next ports; 0: any free ports",
       Range::not_negative},
      {"pull", &options.pull,
       "bsp: values are read as soon as they are updated, while the next forward runs "
       "(overlapped), or all within the step, once all workers have pushed (barrier)"},
      {"server_device", &options.server_device,
       "device of dedicated servers: same as the workers', or cpu"},
      {"servers", &options.servers,
       "servers that the parameters are spread over; with placement mixed the dedicated ones "
       "alone",
       Range::not_negative},
      {"staleness_bound", &options.staleness_bound,
       "ssp: how many updates the values of a step may lack", Range::not_negative},
      {"staleness_lr", &options.staleness_lr,
       "asp: inverse divides the learning rate of an update by 1 + the staleness of its gradient"},
      {"sum_group", &options.sum_group,
       "bsp: consecutive workers, as of one machine, that add up their gradients before they push, "
       "each a part of every unit, and give each other the values that they pull; 1: none",
       Range::positive},
      {"transport", &options.transport,
       "how messages travel between processes: shm (headers through shared memory, values read "
       "where they lie; ranks on CPUs), ipc, tcp (of the loopback interface, unless address says "
       "otherwise), or auto: shm where it can be, else ipc"}};
  fields.push_back(
      {"pull_compressor", &options.pull_compressor,
       "bsp, asp: how what a worker reads is compressed: the difference from the values that it "
       "has, by fp16, bf16, int8, onebit or topk with the options of compressor; none: the values "
       "themselves"});
  return with_reach(options.reach, with_compression(options.compression, std::move(fields)));
}

ConsistencyRules rules_of(const PsOptions& options) {
  const bool ssp = options.consistency == Consistency::ssp;
  return {options.consistency, ssp ? options.staleness_bound : 0,
          static_cast<int>(options.backup_workers)};
}

double moving_rate_of(const PsOptions& options, int workers) {
  return options.moving_rate > 0 ? options.moving_rate : 0.9 / workers;
}

bool is_synchronous(const PsOptions& options) {
  const ConsistencyRules rules = rules_of(options);
  return !is_asynchronous(rules.consistency) && rules.staleness_bound == 0 &&
         rules.backup_workers == 0;
}

Promise promise_of(const PsOptions& options) {
  if (!is_synchronous(options)) return Promise::replayed;
  return compresses(options) ? Promise::own_algorithm : Promise::same_run;
}

void check(const PsOptions& options, const RunPlan& plan) {
  const bool mixed = options.placement == Placement::mixed;
  const int least = mixed ? 0 : 1;
  if (options.servers < least || options.servers > most_servers)
    throw Error("scheme.ps.servers = {} must lie between {} and {}", options.servers, least,
                most_servers);
  check_sum_group(options, plan.world);
  const int groups = plan.world / sum_group_of(options, plan.world);
  if (mixed && options.servers > groups)
    throw Error(
        "scheme.ps.servers = {}: with placement 'mixed' there is at most one dedicated server for "
        "each of {} {}{}; lower it, or choose 'dedicated'",
        options.servers, groups, groups < plan.world ? "group" : "worker", groups == 1 ? "" : "s");
  if (!(options.partition_mb >= least_partition_mb && options.partition_mb <= most_partition_mb))
    throw Error("scheme.ps.partition_mb = {} must lie between {} and {}", options.partition_mb,
                least_partition_mb, most_partition_mb);
  if (mixed && options.partition_by == PartitionBy::round_robin)
    throw Error(
        "scheme.ps.partition_by = 'round_robin' gives all servers equally many tensors, but with "
        "placement 'mixed' their shares differ; choose 'tensors' or 'parts'");
  if (options.io_threads < 1 || options.io_threads > most_io_threads)
    throw Error("scheme.ps.io_threads = {} must lie between 1 and {}", options.io_threads,
                most_io_threads);
  check_port("ps", options.transport, options.port, count_servers(options, plan.world).all);
  check_consistency(options, plan);
  check_ps_compression(options, plan);
  check_reach("ps", options.transport, options.reach);
}

}  // namespace ringside::ps
