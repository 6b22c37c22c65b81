#include "experiments/runner/report/assumed.h"

#include <fmt/ranges.h>

#include <algorithm>

namespace ringside::runner {

std::string assumed_text(const std::vector<AssumedOf>& clusters) {
  std::string out;
  for (auto one = clusters.begin(); one != clusters.end(); ++one) {
    if (one->assumed.empty() || std::find(clusters.begin(), one, *one) != one) continue;
    std::vector<std::string> parts;
    for (const sim::Assumed& part : one->assumed)
      parts.push_back(fmt::format("{} ({})", part.part, fmt::join(part.keys, ", ")));
    out += fmt::format("Assumed of cluster {}, neither published nor measured: {}.\n", one->cluster,
                       fmt::join(parts, "; "));
  }
  return out;
}

}  // namespace ringside::runner
