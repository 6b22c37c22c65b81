#include <algorithm>
#include <cmath>
#include <map>

#include "core/base/error.h"
#include "core/sim/cluster_check.h"
#include "experiments/tools/bench/comm_bench.h"
#include "experiments/tools/bench/rank/operations.h"
#include "experiments/tools/calibrate/cluster_fit.h"

namespace ringside::tools::calibrate {
namespace {

/// Cluster files allow no other shares.
constexpr double smallest_share = 1e-9;
/// The smallest arrays give the latency. They also count for the share if moving their bytes takes
/// at least this part of their time.
constexpr double least_part = 0.1;

using Tables = std::vector<const bench::PublishedCollective*>;

bool between_machines(const sim::ClusterSpec& cluster, const bench::PublishedCollective& table) {
  return table.world > cluster.devices;
}

sim::LinkSpec& link_of(sim::ClusterSpec& cluster, bool machines) {
  if (machines) return cluster.nic;
  return cluster.topology == sim::Topology::pcie ? cluster.pcie : cluster.peer;
}

/// The measured microseconds of size `i`.
double measured_us(const bench::PublishedCollective& table, std::size_t i) {
  const double factor =
      bench::find_comm_operation(table.operation).bus_factor(static_cast<double>(table.world));
  return static_cast<double>(table.sizes[i]) * factor / table.busbw[i] * 1e-3;
}

/// The simulated microseconds of each size.
std::vector<double> simulated_us(const sim::ClusterSpec& cluster,
                                 const bench::PublishedCollective& table) {
  std::vector<double> us;
  bench::CommBench bench = bench::bench_of(table);
  bench.cluster = cluster;
  bench::run_comm_bench(bench, [&](const bench::CommRow& row) { us.push_back(row.p50); });
  return us;
}

/// Sets the link's latency to that of the smallest arrays.
void fit_latency(sim::ClusterSpec& cluster, const Tables& tables, bool machines) {
  double& latency = machines ? cluster.nic.step_us : cluster.collective.base_us;
  const double before = latency, more = 10;
  double missing = 0, slope = 0;
  for (const bench::PublishedCollective* one : tables) {
    const double now = simulated_us(cluster, *one).front();
    latency = before + more;
    slope += (simulated_us(cluster, *one).front() - now) / more;
    latency = before;
    missing += measured_us(*one, 0) - now;
  }
  if (slope > 0) latency = rounded(std::max(0.0, before + missing / slope));
}

void fit_curve(sim::ClusterSpec& cluster, const Tables& tables, bool machines) {
  sim::Efficiency& curve = link_of(cluster, machines).by_mb;
  std::map<std::int64_t, std::vector<double>> shares;
  for (const bench::PublishedCollective* one : tables) {
    curve.points = {{1, 1}};
    const std::vector<double> once = simulated_us(cluster, *one);
    curve.points = {{1, 2}};
    const std::vector<double> half = simulated_us(cluster, *one);
    for (std::size_t i = 0; i < once.size(); ++i) {
      const double measured = measured_us(*one, i);
      const double moving = 2 * (once[i] - half[i]), rest = measured - (once[i] - moving);
      if (i == 0 && moving < least_part * once[i]) continue;
      const double share = rest > 0 ? moving / rest : sim::largest_efficiency;
      shares[one->sizes[i]].push_back(std::clamp(share, smallest_share, sim::largest_efficiency));
    }
  }
  curve.points.clear();
  for (const auto& [size, of_size] : shares) {
    double logarithms = 0;
    for (const double share : of_size) logarithms += std::log(share);
    curve.points.emplace_back(static_cast<double>(size) / 1e6,
                              rounded(std::exp(logarithms / static_cast<double>(of_size.size()))));
  }
}

sim::ClusterSpec fitted(sim::ClusterSpec cluster, const Tables& tables, bool machines) {
  // The curve has the time of arrays of each size, whatever the algorithm and protocol were.
  cluster.collective.tuning = sim::CollectiveTuning::rings;
  // The two depend on each other a little: the smallest arrays move bytes, too.
  for (int round = 0; round < 2; ++round) {
    fit_latency(cluster, tables, machines);
    fit_curve(cluster, tables, machines);
  }
  return cluster;
}

/// The simulated microseconds of size `i` with a curve that does not have this size.
double us_without(sim::ClusterSpec cluster, bench::PublishedCollective table, std::size_t i,
                  bool machines) {
  const std::int64_t size = table.sizes[i];
  std::erase_if(link_of(cluster, machines).by_mb.points,
                [&](const auto& point) { return point.first == static_cast<double>(size) / 1e6; });
  table.sizes = {size};
  return simulated_us(cluster, table).front();
}

double busbw(const bench::PublishedCollective& table, std::size_t i, double us) {
  return table.busbw[i] * measured_us(table, i) / us;
}

}  // namespace

std::vector<FittedFigure> fit_links(sim::ClusterSpec& cluster,
                                    const std::vector<bench::PublishedCollective>& tables) {
  if (!tables.empty() && sim::shares_memory(cluster))
    throw Error(
        "cluster {}: its ranks sum in shared memory (collective.kind = \"shm\"), which has no link "
        "to fit; `ringside calibrate` measures it",
        cluster.name);
  std::vector<FittedFigure> figures;
  for (const bool machines : {false, true}) {
    Tables of_link;
    for (const bench::PublishedCollective& table : tables)
      if (between_machines(cluster, table) == machines) of_link.push_back(&table);
    if (of_link.empty()) continue;
    const sim::ClusterSpec before = cluster;
    cluster = fitted(before, of_link, machines);
    for (std::size_t k = 0; k < of_link.size(); ++k) {
      const bench::PublishedCollective& table = *of_link[k];
      const std::size_t sizes = table.sizes.size();
      const auto then = simulated_us(before, table), now = simulated_us(cluster, table);
      std::vector<double> left_out;
      if (of_link.size() > 1) {
        auto others = of_link;
        others.erase(others.begin() + static_cast<std::ptrdiff_t>(k));
        left_out = simulated_us(fitted(before, others, machines), table);
      }
      for (std::size_t i = 0; i < sizes; ++i) {
        FittedFigure figure{.label = table.label,
                            .world = static_cast<int>(table.world),
                            .figure = bench::figure_of(table, i),
                            .measured = table.busbw[i],
                            .before = busbw(table, i, then[i]),
                            .after = busbw(table, i, now[i])};
        if (!left_out.empty()) {
          figure.left_out = busbw(table, i, left_out[i]);
        } else if (i > 0 && i + 1 < sizes) {
          figure.left_out = busbw(table, i, us_without(cluster, table, i, machines));
        }
        figures.push_back(figure);
      }
    }
  }
  if (const auto miss = largest_miss(figures)) cluster.collective.error = rounded(*miss);
  return figures;
}

}  // namespace ringside::tools::calibrate
