#include "experiments/chakra/graph.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string_view>
#include <tuple>

#include "core/base/error.h"

namespace ringside::chakra {
namespace {

using nlohmann::json;

constexpr std::array<std::string_view, 5> collectives = {"all_reduce", "reduce_scatter",
                                                         "all_gather", "broadcast", "all_to_all"};

/// What a span means for the order of operations. Of what begins at one moment, the first kind
/// comes first.
enum class Role { collective, wait, compute };

/// The numbers of arrows.
using Arrows = std::vector<std::int64_t>;

/// A span of one rank; times in nanoseconds.
struct Span {
  Role role{};
  std::string name, operation, group;
  std::int64_t begin = 0, end = 0, bytes = 0;
  std::int64_t within = 0;  // the time of what is nested in it
  bool blocks = false;      // the rank waits for the collective at once
  Arrows arrows{};
};

std::int64_t nanoseconds(const json& microseconds) {
  return std::llround(microseconds.get<double>() * 1e3);
}

/// The role of a span in the graph; none if it has none.
std::optional<Role> role_of(const json& event, const std::string& line) {
  const std::string category = event.at("cat");
  if (category == "communication" || category == "scalars") return Role::collective;
  if (!line.starts_with("compute")) return {};
  if (category == "exposed") return Role::wait;
  if (category == "launch" || category == "step") return {};
  return Role::compute;
}

Span span_of(const json& event, Role role) {
  const json args = event.value("args", json::object());
  const std::int64_t begin = nanoseconds(event.at("ts"));
  return {role,
          event.at("name"),
          args.value("operation", ""),
          args.value("group", ""),
          begin,
          begin + nanoseconds(event.at("dur")),
          args.value("bytes", std::int64_t{0}),
          0,
          event.at("cat") == "scalars"};
}

/// The spans of every rank that have a role, in the order in which they begin.
std::map<int, std::vector<Span>> spans_of(const json& trace) {
  std::map<int, std::vector<Span>> ranks;
  std::map<std::pair<int, int>, std::string> lines;
  std::map<std::pair<int, int>, std::vector<std::size_t>> open;  // on the lines that nest
  Arrows* last = nullptr;  // of the span to which arrows belong
  for (const json& event : trace.at("traceEvents")) {
    const std::string phase = event.at("ph");
    const int rank = event.at("pid");
    std::vector<Span>& spans = ranks[rank];
    const std::pair line(rank, event.value("tid", 0));
    if (event.at("name") == "thread_name") lines[line] = event.at("args").at("name");
    if (last && (phase == "s" || phase == "t" || phase == "f")) last->push_back(event.at("id"));
    if (phase != "X") continue;
    last = nullptr;
    const std::optional<Role> role = role_of(event, lines[line]);
    if (!role) continue;
    Span span = span_of(event, *role);
    if (*role != Role::collective) {
      std::vector<std::size_t>& around = open[line];
      while (!around.empty() && spans[around.back()].end <= span.begin) around.pop_back();
      if (!around.empty()) spans[around.back()].within += span.end - span.begin;
      around.push_back(spans.size());
    }
    spans.push_back(std::move(span));
    last = &spans.back().arrows;
  }
  for (auto& [rank, spans] : ranks)
    std::stable_sort(spans.begin(), spans.end(), [](const Span& a, const Span& b) {
      return std::tuple(a.begin, a.role) < std::tuple(b.begin, b.role);
    });
  return ranks;
}

void check(const Span& span, int rank) {
  if (std::find(collectives.begin(), collectives.end(), span.operation) != collectives.end())
    return;
  throw Error(
      "rank {} moves data by '{}', which is no collective; Chakra traces are written of runs whose "
      "ranks speak by collectives alone, such as those of ddp and fsdp",
      rank, span.name);
}

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

std::vector<Node> graph_of(const std::vector<Span>& spans, int rank, Groups& groups) {
  std::vector<Node> nodes;
  std::optional<std::int64_t> computed;         // the last node of compute
  std::map<int, std::int64_t> collected;        // by group, the last collective
  std::map<std::int64_t, std::int64_t> arrows;  // the collective of each arrow
  std::set<std::int64_t> awaited;               // collectives that the next compute follows
  for (const Span& span : spans) {
    if (span.role == Role::wait) {
      for (const std::int64_t arrow : span.arrows)
        if (const auto found = arrows.find(arrow); found != arrows.end())
          awaited.insert(found->second);
      continue;
    }
    const bool computes = span.role == Role::compute;
    const std::int64_t own = span.end - span.begin - (computes ? span.within : 0);
    Node node{static_cast<std::int64_t>(nodes.size()) + 1,
              span.name,
              {},
              span.begin / 1000,
              std::max<std::int64_t>(0, own) / 1000};
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
      if (span.blocks) awaited.insert(node.id);
    }
    nodes.push_back(std::move(node));
  }
  return nodes;
}

}  // namespace

Run graphs_of(const json& trace) {
  Run run;
  Groups groups;
  for (const auto& [rank, spans] : spans_of(trace)) {
    if (spans.empty())
      throw Error("the trace shows nothing of rank {}; raise sim.traced_ranks, and compare anew",
                  rank);
    run.ranks.push_back(graph_of(spans, rank, groups));
  }
  run.groups = groups.take();
  return run;
}

}  // namespace ringside::chakra
