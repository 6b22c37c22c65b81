#include "peer/comm/roll_call.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "core/base/error.h"
#include "core/base/seconds_now.h"

namespace ringside::peer {

std::string call_the_roll(Store& store, const Group& group, const Records& own,
                          const std::string& what, double now, double timeout_s) {
  const auto key = [&](int rank) { return fmt::format("where/{}/{}", group.name, rank); };
  store.set(key(group.rank), where_rank_is(own, now));
  leave_records(store, group.name, what, group.rank, group.rank + 1,
                [&](int) -> const Records& { return own; });
  const double end = seconds_now() + std::min(timeout_s, 1.0);
  std::set<int> silent;
  std::string said;
  for (int r = 0; r < group.size; ++r) {
    if (r == group.rank) continue;
    try {
      said +=
          fmt::format("; rank {}: {}", r, store.get(key(r), std::max(0.0, end - seconds_now())));
    } catch (const Error&) {
      silent.insert(r);
    }
  }
  const std::string who = list_ranks(group.size, [&](int r) { return silent.count(r) > 0; });
  if (!who.empty())
    return fmt::format("{} {} nothing{}", who, silent.size() > 1 ? "say" : "says", said);
  return said.empty() ? said : said.substr(2);
}

}  // namespace ringside::peer
