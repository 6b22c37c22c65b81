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
  break_group(what);
  throw Error("{}", broken_);
}

}  // namespace ringside::peer
