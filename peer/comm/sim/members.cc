#include "peer/comm/sim/members.h"

#include <algorithm>

#include "core/base/error.h"

namespace ringside::peer {
namespace {

/// All ranks of a simulated cluster live in one process: the more there are, the fewer records each
/// keeps.
std::size_t records_kept(const sim::ClusterSpec& cluster) {
  constexpr std::size_t of_all_ranks = 64 * Records::most;
  const auto ranks = static_cast<std::size_t>(cluster.machines * cluster.devices);
  return std::clamp<std::size_t>(of_all_ranks / ranks, 4, Records::most);
}

}  // namespace

SimMembers::SimMembers(sim::World& world, const std::string& name, int size,
                       const SimOptions& options)
    : world_(world),
      name_(name),
      options_(options),
      members_(static_cast<std::size_t>(size)),
      records_(members_.size(), Records(records_kept(world.cluster()))) {}

std::vector<int> SimMembers::hosts() const {
  std::vector<int> out;
  for (const Member& member : members_) out.push_back(member.place.machine);
  return out;
}

bool SimMembers::shares_memory() const {
  return sim::shares_memory(world_.cluster()) &&
         std::all_of(members_.begin(), members_.end(), [&](const Member& member) {
           return member.place.machine == members_.front().place.machine;
         });
}

void SimMembers::throw_if_broken() const {
  if (!broken_.empty()) throw Error("{}", broken_);
}

void SimMembers::fail(const std::string& what) {
  if (broken_.empty() && options_.store) {
    const auto of = [this](int r) { return records(r).list(); };
    leave_records(*options_.store, name_, what, 0, size(), of);
  }
  break_group(what);
  throw Error("{}", broken_);
}

void SimMembers::fail_waiting(const std::string& what) {
  const auto of = [this](int r) { return records(r).list(); };
  const auto left = [this](int r) { return gone(r); };
  fail(fmt::format("{}; {}", what, where_ranks_are(size(), of, left, world_.now())));
}

}  // namespace ringside::peer
