#include "peer/comm/sim/tuning.h"

#include <algorithm>
#include <cmath>

namespace ringside::peer {
namespace {

// All figures are those of NCCL's own model of cost, which it chooses by (NVIDIA/nccl at 1fc949c5,
// src/tuning/cost_model.cc, ncclTunerConstantsDefaults). src/graph/tuning.cc of 2.20.3 has the
// same, but for Tree/Simple: no base, and 28 us a step, the time of a chunk with it. What differs:
//   - a ring's step of Simple over a network is that of 2.7.5, 9.6 us in place of 14, as in the
//     catalog of clusters, and LinkSpec::latency_us is part of it;
//   - a ring's share of LL is that of 2.20.3; later it is a half;
//   - LL moves at most 20.4 GB/s in every group, NCCL's figure for V100 of more than two machines.
//     Those for a single machine, 39 (V100) and 87.7 GB/s (A100), would have 8 GPUs sum 1 MiB in
//     68 and 46 us, for which nccl-tests report 80 and 93;
//   - there is no LL128. With its rows 8 V100 would sum 1 MiB 44%, 2 and 8 A100 88%, and the latter
//     two 16 MiB 20 to 30% faster than nccl-tests report, and no published figure would come out
//     better.
constexpr double most_of_ll = 20.4;

// NCCL: "Trees are not perfectly sticking to the model for medium sizes" (treeCorrectionFactor).
constexpr double tree_ll[] = {1.0, 1.0, 1.0, 1.0, 0.9, 0.8, 0.7, 0.7, 0.7, 0.7, 0.6, 0.5,
                              0.4, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.0, 1.0, 1.0, 1.0};
constexpr double tree_simple[] = {0.9, 0.9, 0.9, 0.9, 0.9, 0.9, 0.9, 0.8, 0.7, 0.6, 0.6, 0.5,
                                  0.5, 0.5, 0.5, 0.6, 0.7, 0.8, 0.7, 0.7, 0.8, 0.9, 0.9, 0.9};

constexpr TuningRow rows[] = {
    // shape, protocol, base, {NVLink, PCIe, network}, share, most, by size
    {NcclTopology::ring, "Simple", {}, {3.4, 5.7, 9.6}, 1},
    {NcclTopology::ring, "LL", 6.6, {0.6, 1.0, 2.7}, 0.25, most_of_ll},
    {NcclTopology::tree, "Simple", {}, {4.0, 4.0, 14.0}, 0.92, 0, tree_simple},
    {NcclTopology::tree, "LL", 6.8, {0.6, 1.0, 5.0}, 0.92 / 3.8, most_of_ll, tree_ll},
};

double seconds_of(const Way& way, double bytes, double longer) {
  return way.base + way.latency + longer * bytes * way.per_byte / share_of(way, bytes);
}

}  // namespace

std::span<const TuningRow> tuning_rows() { return rows; }

double step_us(const TuningRow& row, LinkKind link, double of_link) {
  const auto kind = static_cast<std::size_t>(link);
  return of_link + (row.step_us[kind] - rows[0].step_us[kind]);
}

double share_of(const Way& way, double bytes) {
  const TuningRow& row = *way.row;
  double share = row.share;
  if (row.most_gbs > 0 && way.gbs > 0) share = std::min(share, row.most_gbs / way.gbs);
  if (row.by_size.empty() || bytes < 64) return share;
  const auto doubled = static_cast<std::size_t>(std::log2(bytes / 64));
  return doubled < row.by_size.size() ? share * row.by_size[doubled] : share;
}

const Way& fastest(std::span<const Way> ways, double bytes, double longer) {
  return *std::min_element(ways.begin(), ways.end(), [&](const Way& a, const Way& b) {
    return seconds_of(a, bytes, longer) < seconds_of(b, bytes, longer);
  });
}

}  // namespace ringside::peer
