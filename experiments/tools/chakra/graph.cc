#include "experiments/tools/chakra/graph.h"

#include <algorithm>
#include <array>
#include <optional>
#include <set>
#include <string_view>
#include <tuple>
#include <utility>

#include "core/base/error.h"

namespace ringside::tools::chakra {
namespace {

constexpr std::array<std::string_view, 5> collectives = {"all_reduce", "reduce_scatter",
                                                         "all_gather", "broadcast", "all_to_all"};

/// The role of a span in the order of operations. Of spans that begin at one moment, the first kind
/// comes first.
enum class Role { collective, wait, compute };

/// A span of one rank that has a role.
struct Operation {
  Role role{};
  const runner::TracedSpan* span = nullptr;
  std::int64_t within_ns = 0;  // the time of the spans nested in it
};

/// The role of a span in the graph; none if it has none.
std::optional<Role> role_of(const runner::TracedSpan& span) {
  if (span.category == "communication" || span.category == "scalars") return Role::collective;
  if (!span.line.starts_with("compute")) return {};
  if (span.category == "exposed") return Role::wait;
  if (span.category == "launch" || span.category == "step") return {};
  return Role::compute;
}

/// The spans that have a role, in the order in which they begin.
std::vector<Operation> operations_of(const std::vector<runner::TracedSpan>& spans) {
  std::vector<Operation> operations;
  std::map<std::string, std::vector<std::size_t>> open;  // on the lines that nest
  for (const runner::TracedSpan& span : spans) {
    const std::optional<Role> role = role_of(span);
    if (!role) continue;
    if (*role != Role::collective) {
      std::vector<std::size_t>& around = open[span.line];
      while (!around.empty() && operations[around.back()].span->end_ns <= span.begin_ns)
        around.pop_back();
      if (!around.empty()) operations[around.back()].within_ns += span.end_ns - span.begin_ns;
      around.push_back(operations.size());
    }
    operations.push_back({*role, &span});
  }
  std::stable_sort(
      operations.begin(), operations.end(), [](const Operation& a, const Operation& b) {
        return std::tuple(a.span->begin_ns, a.role) < std::tuple(b.span->begin_ns, b.role);
      });
  return operations;
}

void check(const runner::TracedSpan& span, int rank) {
  if (std::find(collectives.begin(), collectives.end(), span.operation) != collectives.end())
    return;
  throw Error(
      "rank {} moves data by '{}', which is no collective; Chakra traces are written of runs whose "
      "ranks use collectives alone, such as those of ddp and fsdp",
      rank, span.name);
}

/// Whole microseconds of operations in their order; the fractions are added to later ones.
class Microseconds {
 public:
  std::int64_t of(std::int64_t ns) {
    left_ns_ += std::max<std::int64_t>(0, ns);
    const std::int64_t us = left_ns_ / 1000;
    left_ns_ -= us * 1000;
    return us;
  }

 private:
  std::int64_t left_ns_ = 0;
};

class Groups {
 public:
  int index_of(const std::string& name, int rank) {
    const auto found = std::find_if(groups_.begin(), groups_.end(),
                                    [&](const Group& group) { return group.name == name; });
    const auto index = static_cast<int>(found - groups_.begin());
    if (found == groups_.end()) groups_.push_back({name, {}});
    std::vector<int>& ranks = groups_[static_cast<std::size_t>(index)].ranks;
    if (std::find(ranks.begin(), ranks.end(), rank) == ranks.end()) ranks.push_back(rank);
    return index;
  }
  std::vector<Group> take() { return std::move(groups_); }

 private:
  std::vector<Group> groups_;
};

std::vector<Node> graph_of(const std::vector<Operation>& operations, int rank, Groups& groups) {
  std::vector<Node> nodes;
  std::optional<std::int64_t> computed;         // the last node of compute
  std::map<int, std::int64_t> collected;        // by group, the last collective
  std::map<std::int64_t, std::int64_t> arrows;  // the collective of each arrow
  std::set<std::int64_t> awaited;               // collectives that the next compute follows
  Microseconds computing;
  for (const Operation& operation : operations) {
    const runner::TracedSpan& span = *operation.span;
    if (operation.role == Role::wait) {
      for (const std::int64_t arrow : span.arrows)
        if (const auto found = arrows.find(arrow); found != arrows.end())
          awaited.insert(found->second);
      continue;
    }
    const bool computes = operation.role == Role::compute;
    const std::int64_t own_ns = span.end_ns - span.begin_ns - (computes ? operation.within_ns : 0);
    Node node{static_cast<std::int64_t>(nodes.size()) + 1,
              span.name,
              {},
              span.begin_ns / 1000,
              computes ? computing.of(own_ns) : own_ns / 1000};
    if (computed) node.after.push_back(*computed);
    if (computes) {
      node.after.insert(node.after.end(), awaited.begin(), awaited.end());
      awaited.clear();
      computed = node.id;
    } else {
      check(span, rank);
      node.operation = span.operation;
      node.bytes = span.bytes;
      node.group = groups.index_of(span.group, rank);
      const auto [before, is_first] = collected.try_emplace(node.group, node.id);
      if (!is_first) node.after.push_back(std::exchange(before->second, node.id));
      for (const std::int64_t arrow : span.arrows) arrows[arrow] = node.id;
      if (span.category == "scalars") awaited.insert(node.id);  // the rank waits for them at once
    }
    nodes.push_back(std::move(node));
  }
  return nodes;
}

}  // namespace

Run graphs_of(const runner::TracedSpans& trace) {
  Run run;
  Groups groups;
  for (const auto& [rank, spans] : trace) {
    const std::vector<Operation> operations = operations_of(spans);
    if (operations.empty())
      throw Error("the trace shows nothing of rank {}; raise sim.traced_ranks, and compare anew",
                  rank);
    run.ranks.push_back(graph_of(operations, rank, groups));
  }
  run.groups = groups.take();
  return run;
}

}  // namespace ringside::tools::chakra
