#include "peer/comm/roll_call.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <set>

#include "core/base/error.h"
#include "core/base/seconds_now.h"

namespace ringside::peer {

std::string call_the_roll(Store& store, const Group& group, const std::vector<Record>& own,
                          const std::string& what, double now, double timeout_s) {
  const auto key = [&](int rank) { return fmt::format("where/{}/{}", group.name, rank); };
  store.set(key(group.rank), where_rank_is(own, now));
  leave_records(store, group.name, what, group.rank, group.rank + 1, [&](int) { return own; });
  const double end = seconds_now() + std::min(timeout_s, 1.0);
  std::set<int> silent;
  std::string said;
  const auto ask = [&](int rank, double timeout_s) -> std::optional<std::string> {
    try {
      return store.get(key(rank), timeout_s);
    } catch (const Error&) {
      return {};
    }
  };
  // All are asked before the first answer is waited for: a store in another process needs a moment
  // for every answer, and nobody may seem silent because a rank before them is.
  for (int r = 0; r < group.size; ++r)
    if (r != group.rank) ask(r, 0);
  for (int r = 0; r < group.size; ++r) {
    if (r == group.rank) continue;
    if (const auto answer = ask(r, std::max(0.05, end - seconds_now())))
      said += fmt::format("; rank {}: {}", r, *answer);
    else
      silent.insert(r);
  }
  const std::string who = list_ranks(group.size, [&](int r) { return silent.count(r) > 0; });
  if (!who.empty())
    return fmt::format("{} {} nothing{}", who, silent.size() > 1 ? "say" : "says", said);
  return said.empty() ? said : said.substr(2);
}

}  // namespace ringside::peer
