#include "peer/comm/sim/members.h"

#include "core/base/error.h"

namespace ringside::peer {

std::vector<int> SimMembers::hosts() const {
  std::vector<int> out;
  for (const Member& member : members_) out.push_back(member.place.machine);
  return out;
}

void SimMembers::throw_if_broken() const {
  if (!broken_.empty()) throw Error("{}", broken_);
}

void SimMembers::fail(const std::string& what) {
  if (broken_.empty() && options_.store) {
    const auto of = [this](int r) -> const Records& { return records(r); };
    leave_records(*options_.store, name_, what, 0, size(), of);
  }
  break_group(what);
  throw Error("{}", broken_);
}

void SimMembers::fail_waiting(const std::string& what) {
  const auto of = [this](int r) -> const Records& { return records(r); };
  const auto left = [this](int r) { return gone(r); };
  fail(fmt::format("{}; {}", what, where_ranks_are(size(), of, left, world_.now())));
}

}  // namespace ringside::peer
