#include "peer/comm/sim/rings.h"

#include <algorithm>
#include <utility>

#include "peer/comm/sim/mesh_rings.h"
#include "peer/comm/sim/representatives.h"
#include "peer/comm/sim/trees.h"

namespace ringside::peer {
namespace {

constexpr double mega = 1e6, giga = 1e9, micro = 1e-6;

}  // namespace

Rings::Rings(const SimGroup& group) : world_(group.world()), latencies_(tuning_rows().size()) {
  for (int r = 0; r < group.size(); ++r) places_.push_back(group.place(r));
  const bool several = std::any_of(places_.begin(), places_.end(), [&](sim::Place place) {
    return place.machine != places_[0].machine;
  });
  const sim::LinkSpec& link = link_of_group(world_.cluster(), several);
  by_mb_ = &link.by_mb;
  queue_share_ = sim::share_of_queue(link);
  for (const std::vector<int>& order : rings_in_mesh(world_.cluster(), places_)) add_ring(order);
  const std::vector<Channel> channels = channels_of(world_.cluster(), places_);
  if (rings_.empty())
    for (const Channel& channel : channels) {
      std::vector<int> order;
      for (const std::vector<int>& machine : channel)
        order.insert(order.end(), machine.begin(), machine.end());
      add_ring(order);
    }
  std::vector<Flow> hops;
  for (int channel = 0; channel < this->channels(); ++channel)
    for (int r = 0; r < size(); ++r) hops.push_back(flow(r, next(channel, r)));
  flows_ = merged(std::move(hops));
  seconds_per_byte_ = flow_seconds_per_byte(world_.cluster(), flows_);
  if (group.options().machines > 0)
    flows_ = representatives(world_.cluster(), places_, flows_, group.options().machines,
                             group.options().ranks_of_machine);
  add_ways(channels, several);
}

void Rings::add_ring(const std::vector<int>& order) {
  const std::size_t p = order.size();
  Ring ring;
  ring.next.resize(p);
  ring.previous.resize(p);
  for (std::size_t i = 0; i < p; ++i) {
    const int from = order[i], to = order[(i + 1) % p];
    ring.next[static_cast<std::size_t>(from)] = to;
    ring.previous[static_cast<std::size_t>(to)] = from;
    ring.total += step(from, to);
  }
  // Data that goes once round a ring crosses all hops but one; data that goes twice round leaves
  // out two neighbouring hops the second time. The slowest way leaves out the fastest hops.
  for (std::size_t k = 0; k < latencies_.size(); ++k) {
    std::vector<double> steps;
    double total = 0;
    for (std::size_t i = 0; i < p; ++i)
      total += steps.emplace_back(step(order[i], order[(i + 1) % p], tuning_rows()[k]));
    double fastest = sim::for_ever, fastest_two = fastest;
    for (std::size_t i = 0; i < p; ++i) {
      fastest = std::min(fastest, steps[i]);
      fastest_two = std::min(fastest_two, steps[i] + steps[(i + 1) % p]);
    }
    Latencies& of_row = latencies_[k];
    of_row.fastest = std::min(of_row.fastest, fastest);
    of_row.once = std::max(of_row.once, total - fastest);
    of_row.twice = std::max(of_row.twice, 2 * total - fastest_two);
  }
  rings_.push_back(std::move(ring));
}

void Rings::add_ways(const std::vector<Channel>& channels, bool several_machines) {
  const sim::CollectiveSpec& collective = world_.cluster().collective;
  const bool by_size = collective.tuning == sim::CollectiveTuning::by_size;
  const double hops = size() - 1, each = size() * this->channels();
  for (const TuningRow& row : tuning_rows()) {
    if (&row != &tuning_rows().front() && !by_size) return;
    Way way{.row = &row, .base = row.base_us.value_or(collective.base_us) * micro};
    if (row.shape == NcclTopology::ring) {
      if (seconds_per_byte_ > 0) way.gbs = this->channels() / seconds_per_byte_ / giga;
      way.over_hop = hops / each;
      way.per_byte = way.over_hop * seconds_per_byte_;
      way.latency = latencies(row).once;
      round_once_.push_back(way);
      way.over_hop *= 2;
      way.per_byte *= 2;
      way.latency = latencies(row).twice;
      all_reduce_.push_back(way);
    } else if (several_machines) {
      const Trees trees(world_, places_, channels);
      way.per_byte = trees.seconds_per_byte() / this->channels();
      way.over_hop = way.per_byte / seconds_per_byte_;
      way.gbs = 2 / way.per_byte / giga;
      way.latency = trees.latency(row);
      all_reduce_.push_back(way);
    }
  }
}

bool Rings::chooses(const Collective& call) const {
  return call.kind != Collective::Kind::broadcast && call.kind != Collective::Kind::all_to_all;
}

const Way& Rings::way(const Collective& call) const {
  const std::vector<Way>& ways = goes_round_twice(call.kind) ? all_reduce_ : round_once_;
  if (ways.size() == 1) return ways.front();
  const auto whole = static_cast<double>(call.bytes);
  const bool curve = !by_mb_->points.empty() && whole > 0;
  return fastest(ways, whole, 1 / (queue_share_ * (curve ? by_mb_->at(whole / mega) : 1)));
}

double Rings::bytes(const Collective& call) const {
  const auto whole = static_cast<double>(call.bytes);
  if (whole == 0) return 0;
  const double share = chooses(call) ? share_of(way(call), whole) : 1;
  return whole / (share * queue_share_) / (by_mb_->points.empty() ? 1 : by_mb_->at(whole / mega));
}

double Rings::once(const Collective& call) const {
  const sim::CollectiveSpec& collective = world_.cluster().collective;
  const bool copies =
      call.kind == Collective::Kind::all_reduce || call.kind == Collective::Kind::all_gather;
  const double base = chooses(call) ? way(call).base : collective.base_us * micro;
  if (!copies || collective.copy_out_gbs == 0) return base;
  return base + static_cast<double>(call.bytes) / size() / (collective.copy_out_gbs * giga);
}

double Rings::latency_of_chain(int root) const {
  double longest = 0;
  for (int channel = 0; channel < channels(); ++channel)
    longest = std::max(longest, of(channel).total - step(previous(channel, root), root));
  return longest;
}

double Rings::latency_of_round(int round) const {
  double longest = 0;
  for (int r = 0; r < size(); ++r) longest = std::max(longest, step(r, (r + round + 1) % size()));
  return longest;
}

std::vector<Flow> Rings::flows_of_chain(int root) const {
  std::vector<Flow> hops;
  for (int channel = 0; channel < channels(); ++channel)
    for (int r = 0; r < size(); ++r)
      if (next(channel, r) != root) hops.push_back(flow(r, next(channel, r)));
  return merged(std::move(hops));
}

std::vector<Flow> Rings::flows_of_round(int round) const {
  std::vector<Flow> flows;
  for (int r = 0; r < size(); ++r) flows.push_back(flow(r, (r + round + 1) % size()));
  return merged(std::move(flows));
}

}  // namespace ringside::peer
