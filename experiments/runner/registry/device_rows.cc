#include "experiments/runner/registry/registry.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/base/error.h"
#include "core/base/processor.h"
#include "core/device/cpu/cpu_device.h"
#include "core/device/cuda/cuda.h"
#include "core/device/sim/sim_device.h"
#include "core/device/sim/sim_host_side.h"
#include "core/device/sim/sim_storage.h"
#include "core/plan/faults.h"
#include "core/plan/mesh.h"
#include "core/plan/places.h"
#include "core/plan/slices.h"
#include "core/scheme/pipeline_group.h"
#include "peer/comm/hosts/communicator.h"
#include "peer/comm/nccl/communicator.h"
#include "peer/comm/shm/communicator.h"
#include "peer/comm/sim/communicator.h"
#include "ps/transport/host_transport.h"
#include "ps/transport/sim/transport.h"
#include "ps/transport/zmq/transport.h"

namespace ringside::runner {
namespace {

std::unique_ptr<Device> cpu_of(const RunPlan& plan) {
  return make_cpu_device(static_cast<int>(plan.device.threads), has_pipeline(plan));
}

/// What a simulated rank's steps take besides operations. The ranks of a machine that have the
/// model's first stage load their samples through its host, each with the same share of it.
sim::StepTimes step_times(const RunPlan& plan, int rank) {
  sim::StepTimes times{.stated = has_pipeline(plan) && plan.pipeline.has_profile()};
  if (!times.stated) times.host_s = plan.host_step_us * 1e-6;
  const int worker = plan.ranks[static_cast<std::size_t>(rank)].worker;
  for (const std::string& text : plan.faults.plan) {
    const Fault fault = fault_from(text);
    if (fault.server || fault.number != worker || fault.kind == Fault::Kind::kill) continue;
    const bool slow = fault.kind == Fault::Kind::slow;
    times.faults.push_back({fault.step, slow ? 0 : fault.amount, slow ? fault.amount : 1});
  }
  if (times.stated || !plan.sim.decode || worker < 0 || mesh_place(plan, worker).pipeline > 0)
    return times;
  const int machine = place_of(plan, rank).machine;
  std::int64_t beside = 0;
  for (int w = 0; w < plan.world; ++w)
    beside +=
        mesh_place(plan, w).pipeline == 0 && place_of_worker(*plan.cluster, w).machine == machine;
  times.input_s =
      static_cast<double>(samples_of(plan, worker) * std::max<std::int64_t>(beside, 1)) /
      plan.cluster->decoded_per_s;
  return times;
}

std::unique_ptr<HostSide> this_host(const RunPlan& plan, int, Device& device) {
  return make_host_side(device, cpu_of(plan));
}

std::unique_ptr<HostSide> simulated_host(const RunPlan& plan, int rank, Device& device) {
  sim::SimDevice& simulated = sim::sim_device(device);
  const sim::Place host{place_of(plan, rank).machine, -1};
  return sim::make_sim_host_side(simulated,
                                 sim::make_sim_device(*plan.cluster, &simulated.world(), host,
                                                      plan.sim.numerics ? cpu_of(plan) : nullptr));
}

/// How ranks on this machine's processor allocate memory and compute. Ranks get as many threads as
/// they ask for. If all ranks of a host together have more threads than this process has cores
/// (hosts are taken to be alike), threads that wait for their team sleep: otherwise waiting threads
/// would occupy cores that other threads need.
std::vector<std::string> cpu_environment(const RunPlan& plan, int rank) {
  // oneDNN copies operands of a product to aligned memory of up to 16 MB, which it frees again.
  // glibc cuts a small piece off the end of such memory and keeps it apart, 7 pieces of a size, so
  // that the next product does not fit there: BERT-base took 3% more memory.
  std::vector<std::string> out = {"GLIBC_TUNABLES=glibc.malloc.tcache_count=0"};
  if (plan.device.threads == 1) return out;
  out.emplace_back("OMP_THREAD_LIMIT");
  std::int64_t teams = 0;
  for (const RankPlan& other : plan.ranks)
    if (share_host(plan, rank, other.rank)) teams += (other.worker >= 0) + (other.server >= 0);
  const std::optional<int> cores = allowed_cores();
  if (cores && teams * plan.device.threads > *cores)
    out.insert(out.end(), {"OMP_WAIT_POLICY=passive", "GOMP_SPINCOUNT"});  // the latter would win
  return out;
}

/// The environment of the one process that runs all simulated ranks.
std::vector<std::string> simulation_environment(const RunPlan& plan, int) {
  // SimGrid makes and drops small objects without end, and glibc keeps 7 free ones of a size unless
  // it is told otherwise: 1,024 GPUs take a sixth less time so.
  std::vector<std::string> out = {"GLIBC_TUNABLES=glibc.malloc.tcache_count=65535"};
  if (plan.sim.numerics && plan.device.threads > 1) out.emplace_back("OMP_THREAD_LIMIT");
  return out;
}

cuda::Machine machine_with_gpus() {
  cuda::Machine machine = cuda::look_at_machine();
  if (!machine.cause.empty()) throw Error("device.kind = 'cuda': {}", machine.cause);
  return machine;
}

std::string first_gpu() { return machine_with_gpus().gpus.front().name; }

std::vector<std::string> gpus_here() {
  const cuda::Machine machine = machine_with_gpus();
  for (std::size_t i = 0; i < machine.gpus.size(); ++i)
    if (!machine.gpus[i].usable)
      throw Error(
          "device.kind = 'cuda': GPU {} ({}) is too old for the kernels; set "
          "CUDA_VISIBLE_DEVICES to the newer GPUs",
          i, machine.gpus[i].name);
  std::vector<std::string> out;
  for (const cuda::Gpu& gpu : machine.gpus) out.push_back(gpu.uuid);
  return out;
}

std::vector<std::string> nccl_environment(const RunPlan& plan, int rank) {
  if (!shares_device(plan)) return {};  // nor do ranks of several hosts (place_on_hosts())
  return peer::nccl_environment_of_shared_gpu(rank);
}

/// The hosts of a group's ranks, as numbers. Every rank says where it lives, since the plan knows
/// nothing of groups.
std::vector<int> hosts_of(const RankContext& context, const Group& group) {
  const auto key = [&](int rank) { return fmt::format("{}/home/{}", group.name, rank); };
  const auto& homes = context.plan.homes;
  context.store.set(key(group.rank), homes.at(static_cast<std::size_t>(context.rank)).host);
  std::vector<int> hosts;
  std::vector<std::string> known;
  for (int rank = 0; rank < group.size; ++rank) {
    const std::string host = context.store.get(key(rank), context.plan.train.timeout_s);
    const auto place = std::find(known.begin(), known.end(), host);
    hosts.push_back(static_cast<int>(place - known.begin()));
    if (place == known.end()) known.push_back(host);
  }
  return hosts;
}

std::unique_ptr<Communicator> between_processes(const RankContext& context, const Group& group) {
  if (spans_hosts(context.plan) && group.algorithm == Algorithm::hierarchical)
    throw Error(
        "algorithm 'hierarchical' is not there for ranks of several hosts: its order of sums "
        "follows from the hosts, which definitions do not know yet; leave it out, since "
        "collectives between hosts are hierarchical anyway");
  if (spans_hosts(context.plan) && group.size > 1)
    return peer::make_hosts_communicator(
        context.device, context.store, group,
        {.of_ranks = hosts_of(context, group),
         .between = context.plan.hosts.between,
         .address = context.plan.homes[static_cast<std::size_t>(context.rank)].address,
         .timeout_s = context.plan.train.timeout_s});
  return peer::make_shm_communicator(context.device, context.store, group,
                                     context.plan.train.timeout_s, context.interruption);
}

std::unique_ptr<Communicator> between_gpus(const RankContext& context, const Group& group) {
  return peer::make_nccl_communicator(context.device, context.store, group,
                                      context.plan.train.timeout_s);
}

/// See SimOptions::machines. Servers are on some machines only.
std::int64_t machines_alike(const RunPlan& plan) {
  return plan.servers > 0 ? 0 : machines_of_workers(plan);
}

/// See SimOptions::ranks_of_machine. Without a pipeline a group with all ranks of its machines has
/// all machines.
std::int64_t ranks_of_machine(const RunPlan& plan) {
  const std::int64_t devices = plan.cluster->devices;
  const bool fills = plan.world % devices == 0 && plan.world <= devices * plan.cluster->machines;
  return has_pipeline(plan) && plan.servers == 0 && plan.homes.empty() && fills ? devices : 0;
}

/// The run of all stages of the model.
const RunPlan& whole_run(const RankContext& context) {
  return context.pipeline ? context.pipeline->whole().plan : context.plan;
}

/// What a message between stages takes if a profile says so. `context` is that of the run of all
/// stages for groups along the pipeline, and else that of a run without one.
std::optional<double> stated_message_s(const RankContext& context) {
  if (!has_pipeline(context.plan) || !context.plan.pipeline.has_profile()) return {};
  return 1e-3 * context.plan.pipeline.profile.send;
}

std::unique_ptr<Communicator> between_simulated(const RankContext& context, const Group& group) {
  return peer::make_sim_communicator(sim::sim_device(context.device), group,
                                     {.message_ranks = context.plan.sim.message_ranks,
                                      .timeout_s = context.plan.train.timeout_s,
                                      .machines = machines_alike(whole_run(context)),
                                      .ranks_of_machine = ranks_of_machine(whole_run(context)),
                                      .message_s = stated_message_s(context),
                                      .store = &context.store});
}

std::unique_ptr<VirtualStorage> simulated_storage(const RankContext& context) {
  return sim::make_sim_storage(sim::sim_device(context.device));
}

}  // namespace

const std::vector<DeviceRow>& device_rows() {
  static const std::vector<DeviceRow> rows = {
      {.name = "cpu",
       .summary = "this machine's processor, through oneDNN",
       .describe = processor_name,
       .environment = cpu_environment,
       .make = [](const RunPlan& plan, int, sim::World*) { return cpu_of(plan); },
       .host_side = this_host,
       .links = {between_processes, ps::host_transport},
       .hosts_library = true},
      {.name = "cuda",
       .summary = "this machine's GPUs, through cuBLASLt, cuDNN and NCCL",
       .devices = gpus_here,
       .describe = first_gpu,
       .environment = nccl_environment,
       .make = [](const RunPlan& plan, int rank, sim::World*) -> std::unique_ptr<Device> {
         const int ordinal = plan.ranks[static_cast<std::size_t>(rank)].ordinal;
         return cuda::make_cuda_device({.ordinal = ordinal, .tf32 = plan.device.tf32});
       },
       .host_side = this_host,
       .links = {between_gpus, ps::zmq_transport}},
      {.name = "sim",
       .summary = "machines of a cluster file, simulated (device.cluster)",
       .check = sim::require_simgrid,
       .environment = simulation_environment,
       .make = [](const RunPlan& plan, int rank, sim::World* world) -> std::unique_ptr<Device> {
         return sim::make_sim_device(
             *plan.cluster, world, place_of(plan, rank), plan.sim.numerics ? cpu_of(plan) : nullptr,
             plan.device.tf32, static_cast<std::uint64_t>(plan.train.seed), step_times(plan, rank));
       },
       .host_side = simulated_host,
       .links = {between_simulated, ps::sim_transport, simulated_storage}},
  };
  return rows;
}

}  // namespace ringside::runner
