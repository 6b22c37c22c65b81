#include "core/train/parameter_comparison.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/base/hash.h"
#include "core/plan/mesh.h"
#include "core/scheme/pipeline_group.h"
#include "core/train/part_of_run.h"

namespace ringside {
namespace {

/// The number of parameters that the host holds at a time while it hashes them.
constexpr std::int64_t read_at_once = 1 << 18;
/// A digest in doubles, whose sums with zeros are exact.
constexpr std::size_t parts = 4;
using Digest = std::string;  // 32 hexadecimal digits
const Digest nothing(32, '0');

Digest digest_of(Device& device, const Tensor& values) {
  Hash hash;
  std::vector<std::byte> host;
  for (std::int64_t begin = 0; begin < values.count(); begin += read_at_once) {
    const Tensor piece = values.range(begin, std::min(read_at_once, values.count() - begin));
    host.resize(piece.bytes());
    device.read(piece, host);
    hash.update(host);
  }
  return hash.digest();
}

/// The digests of every worker, of which each gives `own`: as many of them from each.
std::vector<std::vector<Digest>> of_all(const RankContext& context, SyncScheme& scheme,
                                        const std::vector<Digest>& own) {
  const auto world = static_cast<std::size_t>(context.plan.world);
  const std::size_t each = own.size() * parts;
  std::vector<double> numbers(world * each);
  const std::size_t first = static_cast<std::size_t>(context.self().worker) * each;
  for (std::size_t i = 0; i < own.size(); ++i)
    for (std::size_t p = 0; p < parts; ++p)
      numbers[first + i * parts + p] =
          static_cast<double>(std::stoul(own[i].substr(8 * p, 8), nullptr, 16));
  scheme.sum(numbers);
  std::vector<std::vector<Digest>> out(world);
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    std::vector<Digest>& of_worker = out[i / each];
    if (i % parts == 0) of_worker.emplace_back();
    of_worker.back() += fmt::format("{:08x}", static_cast<std::uint32_t>(numbers[i]));
  }
  return out;
}

/// The workers that do not hold what most of them, and at least two, do. If they differ and there
/// is no such thing, none is `known` to be right, and all are listed.
struct Differing {
  std::vector<int> workers{};
  bool known = true;
};
Differing differing(const std::vector<std::vector<Digest>>& all) {
  std::map<Digest, int> counts;
  for (const auto& of_worker : all)
    if (of_worker[0] != nothing) ++counts[of_worker[0]];
  if (counts.size() < 2) return {};
  const auto most =
      std::ranges::max_element(counts, {}, [](const auto& one) { return one.second; });
  const auto as_many =
      std::ranges::count_if(counts, [&](const auto& one) { return one.second == most->second; });
  Differing out;
  out.known = most->second > 1 && as_many == 1;
  for (std::size_t w = 0; w < all.size(); ++w)
    if (all[w][0] != nothing && (!out.known || all[w][0] != most->first))
      out.workers.push_back(static_cast<int>(w));
  return out;
}

/// The ranks that differ, of all stages: each stage knows its own.
std::vector<int> ranks_of_all_stages(const RankContext& context, const std::vector<int>& workers) {
  if (!context.pipeline) return workers;
  const RunPlan& whole = whole_run(context).plan;
  std::vector<double> differ(static_cast<std::size_t>(whole.world));
  for (const int w : workers)
    differ[static_cast<std::size_t>(worker_at(whole, {w, context.pipeline->rank()}))] = 1;
  context.pipeline->sum(differ);
  std::vector<int> out;
  for (std::size_t w = 0; w < differ.size(); ++w)
    if (differ[w] > 0) out.push_back(static_cast<int>(w));
  return out;
}

}  // namespace

bool ParameterComparison::due_after(std::int64_t step, bool saves) const {
  const std::int64_t every = context_.plan.faults.compare_every;
  return every > 0 && context_.plan.world > 1 && context_.device.has_values() &&
         (saves || (step + 1) % every == 0);
}

void ParameterComparison::compare(std::int64_t steps_done) const {
  std::vector<Digest> own;
  Hash whole;
  scheme_.visit_parameters([&](int, const Unit&, const Tensor& values) {
    own.push_back(digest_of(context_.device, values));
    whole.update(std::as_bytes(std::span(own.back())));
  });
  const auto all = of_all(context_, scheme_, {own.empty() ? nothing : whole.digest()});
  const Differing wrong = differing(all);
  const std::vector<int> ranks = ranks_of_all_stages(context_, wrong.workers);
  if (ranks.empty()) return;
  const std::string which =
      fmt::format("rank{} {}", ranks.size() > 1 ? "s" : "", fmt::join(ranks, ", "));
  if (wrong.workers.empty())
    throw Error(
        "the parameters of {} differ from those of others with the same stages after step {}",
        which, steps_done);
  own.resize(model_.units.size(), nothing);
  const auto by_unit = of_all(context_, scheme_, own);
  const auto same = [&](std::size_t unit) {
    std::set<Digest> digests;
    for (std::size_t w = 0; w < all.size(); ++w)
      if (all[w][0] != nothing) digests.insert(by_unit[w][unit]);
    return digests.size() < 2;
  };
  std::size_t unit = 0;
  while (unit + 1 < own.size() && same(unit)) ++unit;
  const std::string& first = model_.units[unit]->name();
  if (!wrong.known)
    throw Error(
        "the parameters of {} differ from each other after step {}, first in unit {}; no two "
        "ranks agree against the others, so any may be wrong",
        which, steps_done, first);
  throw Error("the parameters of {} differ from the others' after step {}, first in unit {}", which,
              steps_done, first);
}

}  // namespace ringside
