#include "ps/schemes/placement.h"

namespace ringside::ps {

ServerCounts count_servers(Placement placement, std::int64_t servers, int world) {
  switch (placement) {
    case Placement::dedicated:
      return {servers, 0};
    case Placement::colocated:
      return {servers, servers};
    case Placement::mixed:
      break;
  }
  return {world + servers, world};
}

std::vector<std::int64_t> shares_of_servers(Placement placement, std::int64_t servers, int world,
                                            int group) {
  const ServerCounts counts = count_servers(placement, servers, world);
  std::vector<std::int64_t> shares(static_cast<std::size_t>(counts.all), 1);
  if (placement != Placement::mixed) return shares;
  const std::int64_t n = world / group;
  for (std::size_t i = 0; i < shares.size(); ++i) {
    const bool own = static_cast<std::int64_t>(i) < counts.colocated;
    shares[i] = own ? n - servers : 2 * (n - 1) * group;
    if (n == 1) shares[i] = own ? 1 : 0;
  }
  return shares;
}

}  // namespace ringside::ps
