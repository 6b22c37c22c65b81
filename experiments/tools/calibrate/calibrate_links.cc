#include <algorithm>
#include <cmath>
#include <functional>
#include <thread>

#include "core/base/error.h"
#include "core/comm/store.h"
#include "core/device/cpu/cpu_device.h"
#include "core/observe/run_record.h"
#include "core/sim/cluster_check.h"
#include "experiments/runner/registry/registry.h"
#include "experiments/runner/run/timed_messages.h"
#include "experiments/tools/calibrate/calibrate.h"
#include "peer/comm/shm/communicator.h"

namespace ringside::tools::calibrate {
namespace {

constexpr double timeout_s = 30, micro = 1e-6;
// Hosts measure at the pace of their network and of whatever else keeps their cores busy.
constexpr double timeout_of_hosts_s = 600;

// ---- collectives

struct Collective {
  /// Bytes that each of two ranks reads and writes, for each byte of the array.
  double bytes;
  std::function<WorkPtr(Communicator&, const Tensor& array, const Tensor& part)> run;
};

const Collective all_reduce{2, [](Communicator& comm, const Tensor& array, const Tensor&) {
                              return comm.all_reduce(array);
                            }};
const Collective reduce_scatter{1.5,
                                [](Communicator& comm, const Tensor& array, const Tensor& part) {
                                  return comm.reduce_scatter(array, part);
                                }};
const Collective all_gather{2, [](Communicator& comm, const Tensor& array, const Tensor& part) {
                              return comm.all_gather(part, array);
                            }};

/// Seconds of a collective on arrays of `count` elements between two ranks. The ranks rewrite their
/// arrays before each collective, as training does.
double seconds_of(const Collective& collective, std::int64_t count, int repeats,
                  std::int64_t threads) {
  constexpr int ranks = 2;
  MemoryStore store;
  std::vector<double> seconds;
  const auto rank = [&](int r) {
    const auto device = make_cpu_device(static_cast<int>(threads));
    const auto comm =
        peer::make_shm_communicator(*device, store, {"calibrate", r, ranks}, timeout_s);
    const Tensor array = device->tensor({count}, MemoryKind::communication);
    const Tensor part = device->tensor({count / ranks}, MemoryKind::communication);
    for (int i = 0; i < repeats; ++i) {
      device->kernels().fill({.out = array, .value = 1});
      device->kernels().fill({.out = part, .value = 1});
      comm->barrier();
      const double begin = device->clock().now();
      collective.run(*comm, array, part)->wait();
      if (r == 0) seconds.push_back(device->clock().now() - begin);
    }
  };
  {
    std::jthread other([&] { rank(1); });
    rank(0);
  }
  return lower_quartile(std::move(seconds));
}

// ---- messages

RunPlan echo_plan() {
  RunPlan plan;
  plan.servers = 1;
  plan.ranks = {{0, 0, -1}, {1, -1, 0}};
  plan.train.timeout_s = timeout_s;
  return plan;
}

/// One rank of a run with a worker and a server.
struct EchoRank {
  EchoRank(const RunPlan& plan, int rank, Store& store, const Links& links)
      : device(make_cpu_device(1)),
        timeline(*device),
        context{.plan = plan,
                .rank = rank,
                .device = *device,
                .store = store,
                .timeline = timeline,
                .links = links} {}

  std::unique_ptr<Device> device;
  Timeline timeline;
  RankContext context;
};

/// Returns the medians of several tries: waking the other end up takes a few microseconds, or
/// several times as long for a whole try if its core sleeps.
runner::EchoTimes echo(const runner::EchoSeries& series, const Links& links) {
  constexpr int tries = 9;
  const RunPlan plan = echo_plan();
  std::vector<double> wall, sending;
  for (int i = 0; i < tries; ++i) {
    MemoryStore store;
    const EchoRank server(plan, 1, store, links), worker(plan, 0, store, links);
    std::jthread serving([&] { runner::Echo(server.context).answer(series); });
    const runner::EchoTimes now = runner::Echo(worker.context).ask(series);
    wall.push_back(now.wall_s);
    sending.push_back(now.send_s);
  }
  return {quantiles(std::move(wall)).median, quantiles(std::move(sending)).median};
}

}  // namespace

void measure_collectives(sim::ClusterSpec& cluster, std::int64_t threads) {
  constexpr std::int64_t smallest = 1 << 8, largest = 1 << 23;  // elements
  const double base = seconds_of(all_reduce, smallest, 2001, threads);
  // The share of the measured time that belongs to one rank: half of it if both ranks share one
  // core.
  const double own = std::min(1.0, static_cast<double>(cluster.device.cores) / 2);
  const auto measure = [&](sim::Efficiency& curve, std::initializer_list<Collective> collectives) {
    for (std::int64_t count = smallest << 5; count <= largest; count *= 4) {
      double ideal = 0, taken = 0;
      for (const Collective& collective : collectives) {
        const int repeats = count < largest / 16 ? 201 : 31;
        const double seconds = seconds_of(collective, count, repeats, threads);
        ideal += collective.bytes * 4.0 * static_cast<double>(count) /
                 (cluster.device.bandwidth_gbs * 1e9);
        taken += own * std::max(seconds - base, 0.1 * seconds);
      }
      curve.points.emplace_back(ideal / static_cast<double>(collectives.size()) / micro,
                                std::min(ideal / taken, sim::largest_efficiency));
    }
  };
  cluster.collective.kind = sim::CollectiveKind::shm;
  cluster.collective.base_us = base / micro;
  measure(cluster.collective.sum, {all_reduce, reduce_scatter});
  measure(cluster.collective.copy, {all_gather});
}

void measure_messages(sim::ClusterSpec& cluster, std::string_view device) {
  constexpr std::int64_t small = 16, large = 1 << 18;
  const Links& links = runner::find_device(device).links;
  const runner::EchoTimes of_small = echo({200, small}, links),
                          of_large = echo({200, large}, links);
  // Both ends do about the same work. The rest of the time the receiver wakes up.
  cluster.message.send_us = cluster.message.receive_us = of_small.send_s / micro;
  const double per_mb = std::max(0.0, of_large.send_s - of_small.send_s) / (4.0 * large / 1e6);
  cluster.message.send_us_per_mb = cluster.message.receive_us_per_mb = per_mb / micro;
  cluster.pcie.latency_us = std::max(0.0, of_small.wall_s - 2 * of_small.send_s) / micro;
}

void measure_network(sim::ClusterSpec& cluster, std::int64_t threads, const CalibrationSite& site) {
  RunPlan plan;
  plan.id = "links";
  plan.purpose = Purpose::links;
  plan.scheme = "independent";
  plan.options = runner::default_options(plan.scheme);
  plan.promise = Promise::own_algorithm;
  plan.world = site.hosts;
  plan.servers = 1;
  plan.device.threads = threads;
  plan.train.timeout_s = timeout_of_hosts_s;
  for (int r = 0; r < plan.world; ++r) plan.ranks.push_back({r, r, -1});
  plan.ranks.push_back({plan.world, -1, 0});
  const RunRecord row = made(std::move(plan), site, "the timing of links between hosts");
  const LinkTimes& times = row.ranks.at(static_cast<std::size_t>(site.hosts - 1)).links.value();
  const LinkTimes& within = row.ranks.at(0).links.value();
  cluster.message.loopback_us = within.message_us;
  cluster.message.loopback_us_per_mb = within.message_us_per_mb;
  cluster.machines = site.hosts;
  cluster.nic = {.gbs = times.gbs, .step_us = times.step_us};
  cluster.collective.network_us_per_mb = times.collective_us_per_mb;
  cluster.message.network_us = times.message_us;
  cluster.message.network_us_per_mb = times.message_us_per_mb;
  // The rest of a message's time, without the work of both ends and without the latency of messages
  // within a host.
  cluster.nic.latency_us =
      std::max(0.0, times.message_wall_us - 2 * times.message_us - 2 * cluster.pcie.latency_us);
}

}  // namespace ringside::tools::calibrate
