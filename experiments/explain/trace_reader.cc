#include "experiments/explain/trace_reader.h"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <tuple>

#include "core/base/error.h"

namespace ringside {
namespace {

using nlohmann::json;

/// What a trace has of one process.
struct RankLines {
  std::optional<int> rank;
  std::map<std::int64_t, std::string> names;               // of lines
  std::map<std::int64_t, std::vector<TraceSlice>> slices;  // of lines
};

/// The rank whose process is called "rank 3 (worker)"; none for any other name.
std::optional<int> rank_of(const std::string& process) {
  constexpr std::string_view before = "rank ";
  int rank = 0;
  if (!process.starts_with(before) ||
      std::from_chars(process.data() + before.size(), process.data() + process.size(), rank).ec !=
          std::errc())
    return {};
  return rank;
}

/// What a trace has of each of its processes.
std::map<std::int64_t, RankLines> lines_of(const json& trace) {
  std::map<std::int64_t, RankLines> processes;
  for (const json& event : trace.at("traceEvents")) {
    const std::string phase = event.at("ph");
    if (phase != "X" && phase != "M") continue;
    RankLines& lines = processes[event.at("pid").get<std::int64_t>()];
    const auto line = event.value("tid", std::int64_t{0});
    if (phase == "M") {
      const std::string name = event.at("name");
      if (name == "thread_name") lines.names[line] = event.at("args").at("name");
      if (name == "process_name") lines.rank = rank_of(event.at("args").at("name"));
      continue;
    }
    const auto activity = value_named<Activity>(event.value("cat", ""));
    if (!activity) continue;
    const double begin_ms = event.at("ts").get<double>() / 1e3;
    lines.slices[line].push_back(
        {*activity, event.at("name"), begin_ms, begin_ms + event.at("dur").get<double>() / 1e3});
  }
  return processes;
}

void sort_by_begin(std::vector<TraceSlice>& slices) {
  // Of slices that begin together the longest comes first, because it holds the others. But reading
  // samples comes before all else, though it may take no time.
  std::stable_sort(slices.begin(), slices.end(), [](const TraceSlice& a, const TraceSlice& b) {
    const auto order = [](const TraceSlice& one) {
      return std::tuple(one.begin_ms, one.activity != Activity::data, -one.end_ms);
    };
    return order(a) < order(b);
  });
}

/// Leaves out slices within slices, and cuts what overlaps.
void flatten(std::vector<TraceSlice>& slices) {
  sort_by_begin(slices);
  std::vector<TraceSlice> out;
  double covered_to = -1;
  for (TraceSlice& slice : slices) {
    slice.begin_ms = std::max(slice.begin_ms, covered_to);
    const bool marks = slice.activity == Activity::data && slice.end_ms >= covered_to;
    if (slice.end_ms <= slice.begin_ms && !marks) continue;
    covered_to = slice.end_ms;
    out.push_back(std::move(slice));
  }
  slices = std::move(out);
}

/// Whether a new step may begin with the slice: the worker reads its samples, or gets them.
bool begins_step(const TraceSlice& slice) {
  return slice.activity == Activity::data || slice.name.find("inputs") != std::string::npos;
}

/// Cuts what a main thread did into whole steps. A step has as many passes as there are
/// micro-batches; a pass goes from the forward of the first unit to its backward. A forward without
/// a backward belongs to an evaluation, which is left out.
std::vector<TracedStep> steps_of(const std::vector<TraceSlice>& main, std::int64_t passes) {
  std::string first_unit;
  for (const TraceSlice& slice : main)
    if (slice.activity == Activity::compute && slice.name.starts_with("forward ")) {
      first_unit = slice.name.substr(std::string_view("forward ").size());
      break;
    }
  if (first_unit.empty()) return {};
  // Where passes begin and end, as positions in `main`.
  struct Pass {
    std::size_t head, end;
    bool trains;
  };
  std::vector<Pass> all;
  std::size_t after_last = 0;
  for (std::size_t i = 0; i < main.size(); ++i) {
    if (main[i].name == "forward " + first_unit) {
      std::size_t head = i;
      for (std::size_t before = i; before-- > after_last;)
        if (begins_step(main[before])) {
          head = before;
          break;
        }
      all.push_back({all.empty() ? 0 : head, i, false});
      after_last = i + 1;
    } else if (main[i].name == "backward " + first_unit && !all.empty()) {
      all.back().end = i;
      all.back().trains = true;
      after_last = i + 1;
    }
  }
  std::vector<TracedStep> steps;
  std::int64_t passed = 0;
  for (std::size_t p = 0; p < all.size(); ++p) {
    if (!all[p].trains) continue;
    const bool first = passed++ % passes == 0;
    if (first) steps.push_back({main[all[p].head].begin_ms, 0, {}});
    // A step ends where another pass begins, of the next step or of an evaluation.
    const std::size_t end = p + 1 < all.size() ? all[p + 1].head : main.size();
    TracedStep& step = steps.back();
    step.main.insert(step.main.end(), main.begin() + static_cast<std::ptrdiff_t>(all[p].head),
                     main.begin() + static_cast<std::ptrdiff_t>(end));
    step.end_ms = step.main.back().end_ms;
  }
  if (passed % passes != 0 && !steps.empty()) steps.pop_back();
  return steps;
}

}  // namespace

std::size_t TracedRun::steps() const {
  std::size_t all = 0;
  for (const TracedWorker& worker : workers) all += worker.steps.size();
  return all;
}

double ms_of(const TracedStep& step, Activity activity) {
  double sum = 0;
  for (const TraceSlice& slice : step.main)
    if (slice.activity == activity) sum += slice.ms();
  return sum;
}

TracedRun traced_run(const json& trace, const RunPlan& plan) {
  TracedRun out;
  try {
    for (auto& [process, lines] : lines_of(trace)) {
      const auto at = static_cast<std::size_t>(lines.rank.value_or(0));
      if (!lines.rank || at >= plan.ranks.size() || plan.ranks[at].worker < 0) continue;
      TracedWorker worker{*lines.rank, {}, {}};
      std::vector<TraceSlice> main;
      for (auto& [line, slices] : lines.slices) {
        if (lines.names[line] == "serving") continue;  // of a server beside the worker
        for (TraceSlice& slice : slices)
          (slice.activity == Activity::communication ? worker.communication : main)
              .push_back(std::move(slice));
      }
      flatten(main);
      sort_by_begin(worker.communication);
      worker.steps = steps_of(main, std::max<std::int64_t>(1, plan.train.accumulation));
      if (!worker.steps.empty()) out.workers.push_back(std::move(worker));
    }
  } catch (const json::exception& error) {
    throw Error("this is no trace of a run: {}", error.what());
  }
  std::sort(out.workers.begin(), out.workers.end(),
            [](const TracedWorker& a, const TracedWorker& b) { return a.rank < b.rank; });
  return out;
}

TracedRun read_trace(const std::filesystem::path& file, const RunPlan& plan) {
  std::ifstream in(file);
  if (!in) throw Error("{} is not there", file.string());
  try {
    return traced_run(json::parse(in), plan);
  } catch (const json::exception&) {
    throw Error("{} is no JSON; it may have been cut short", file.string());
  } catch (const Error& error) {
    throw Error("{}: {}", file.string(), error.what());
  }
}

}  // namespace ringside
