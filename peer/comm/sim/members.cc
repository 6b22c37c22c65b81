#include "peer/comm/sim/members.h"

#include "core/base/error.h"

namespace ringside::peer {

void SimMembers::throw_if_broken() const {
  if (!broken_.empty()) throw Error("{}", broken_);
}

void SimMembers::fail(const std::string& what) {
  break_group(what);
  throw Error("{}", broken_);
}

}  // namespace ringside::peer
