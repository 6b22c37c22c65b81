#include "core/observe/slice.h"

#include <algorithm>
#include <cstdlib>

#include "core/observe/rank_record.h"

namespace ringside {
namespace {

/// The largest difference of a kind.
std::int64_t distance(const MemoryUse& a, const MemoryUse& b) {
  std::int64_t most = 0;
  for (std::size_t k = 0; k < memory_kinds; ++k) {
    const auto kind = static_cast<MemoryKind>(k);
    most = std::max(most, std::abs(a[kind] - b[kind]));
  }
  return most;
}

}  // namespace

std::vector<MemorySample> memory_samples(const std::vector<Ledger::Change>& changes,
                                         double begin_s) {
  constexpr std::int64_t parts = 500;
  std::vector<MemorySample> all;
  MemoryUse use;
  for (const Ledger::Change& change : changes) {
    use[change.kind] = change.bytes;
    // Changes before the begin count as one moment.
    if (change.seconds <= begin_s && !all.empty()) all.pop_back();
    all.push_back({std::max(change.seconds, begin_s), use});
  }
  const auto peak = std::max_element(all.begin(), all.end(), [](const auto& a, const auto& b) {
    return a.use.total() < b.use.total();
  });
  std::vector<MemorySample> out;
  for (auto sample = all.begin(); sample != all.end(); ++sample)
    if (out.empty() || sample == peak || std::next(sample) == all.end() ||
        distance(sample->use, out.back().use) * parts >= peak->use.total())
      out.push_back(*sample);
  return out;
}

Fields fields_of(Slice& slice) {
  return {{"activity", &slice.activity}, {"name", &slice.name},
          {"begin_s", &slice.begin_s},   {"duration_s", &slice.duration_s},
          {"track", &slice.track},       {"operation", &slice.operation},
          {"bytes", &slice.bytes},       {"sequence", &slice.sequence},
          {"flows", &slice.flows}};
}

Fields fields_of(MemorySample& sample) {
  return {{"at_s", &sample.at_s}, {"use", fields_of(sample.use)}};
}

}  // namespace ringside
