#include "experiments/tools/watch/watch.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "core/base/counted.h"
#include "core/base/error.h"
#include "core/plan/kept_plan.h"
#include "experiments/runner/registry/plugins.h"
#include "experiments/runner/results/attempts.h"
#include "experiments/runner/results/folder_lock.h"
#include "experiments/runner/results/results.h"
#include "experiments/runner/results/saved_results.h"
#include "experiments/runner/run/events.h"

namespace ringside::tools::watch {
namespace {

namespace fs = std::filesystem;

/// The runs of plan.json; those of the rows if it cannot be read.
std::vector<RunPlan> runs_of(const runner::SavedResults& results,
                             std::vector<std::string>& complaints) {
  std::vector<RunPlan> runs;
  try {
    if (!results.plan.empty()) {
      const auto plan = nlohmann::json::parse(results.plan);
      for (const nlohmann::json& run : plan.at("runs"))
        runs.push_back(kept_plan_from_json(run, runner::options_in(run)));
    }
  } catch (const runner::MissingPlugin&) {
    throw;
  } catch (const std::exception& error) {
    complaints.push_back(fmt::format("{}: the plans of runs cannot be read: {}",
                                     (results.folder / "plan.json").string(), error.what()));
    runs.clear();
  }
  if (runs.empty())
    for (const RunRecord* row : runner::rows_that_count(results.rows)) runs.push_back(row->plan);
  std::stable_sort(runs.begin(), runs.end(), [](const RunPlan& a, const RunPlan& b) {
    return a.listing.place < b.listing.place;
  });
  return runs;
}

double last_written(const fs::path& file) {
  struct stat there {};
  return stat(file.c_str(), &there) == 0 ? static_cast<double>(there.st_mtime) : 0;
}

/// Events that are made from the records in a folder of results, for a folder that has no file of
/// events. The end of the comparison is among them if every run has a record. Adds to `complaints`
/// the parts that cannot be read. Throws Error if the folder has no results.
std::vector<runner::ProgressEvent> rows_as_events(const fs::path& folder,
                                                  std::vector<std::string>& complaints) {
  const runner::SavedResults results = runner::read_results(folder);
  complaints.insert(complaints.end(), results.complaints.begin(), results.complaints.end());
  const double time = last_written(folder / "rows.jsonl");
  runner::ComparisonBegan began{.experiment = results.name};
  std::set<std::string> missing;
  for (const RunPlan& run : runs_of(results, complaints)) {
    began.runs.push_back(runner::planned_run(run));
    missing.insert(run.id);
  }
  if (began.runs.empty())
    throw Error("{}: no run can be shown: {}", folder.string(),
                complaints.empty() ? "the folder has no rows" : complaints.front());
  std::vector<runner::ProgressEvent> out = {{time, std::move(began)}};
  const std::vector<const RunRecord*> counting = runner::rows_that_count(results.rows);
  for (const RunRecord& row : results.rows) {
    runner::RunEnded ended = runner::run_ended(row);
    ended.counts = std::find(counting.begin(), counting.end(), &row) != counting.end();
    out.push_back({time, std::move(ended)});
    missing.erase(row.plan.id);
  }
  if (!missing.empty()) return out;
  const auto failed = std::count_if(counting.begin(), counting.end(),
                                    [](const RunRecord* row) { return row->status != "ok"; });
  runner::ComparisonEnded end{.folder = folder.string()};
  if (failed > 0) {
    end.status = runner::ComparisonStatus::failed;
    end.error = fmt::format("{} of {} failed", failed,
                            counted(static_cast<std::int64_t>(counting.size()), "run"));
  }
  out.push_back({time, std::move(end)});
  return out;
}

bool begins_a_comparison(const FollowedLine& line) {
  return line.event && std::holds_alternative<runner::ComparisonBegan>(line.event->what);
}

}  // namespace

Watch::Watch(fs::path folder)
    : folder_(std::move(folder)), follower_(folder_ / runner::ResultsFolder::events_file) {
  if (!fs::is_directory(folder_))
    throw Error("{}: no such folder; name a folder of results, as results/quickstart",
                folder_.string());
}

Watched Watch::state(bool held) const {
  if (!standing_.began()) return held ? Watched::preparing : Watched::died;
  if (!standing_.end()) return held ? Watched::running : Watched::died;
  // If a process holds the folder although the end was there already, it is about to make more
  // runs.
  return held && end_was_there_ ? Watched::preparing : Watched::ended;
}

Watch::Look Watch::look() {
  // Test the lock before reading: a process writes all events before it releases the folder.
  const bool held = runner::is_held(folder_);
  Look out{.lines = follower_.read(), .complaints = follower_.take_complaints()};
  if (is_first_) {
    const auto newest = std::find_if(out.lines.rbegin(), out.lines.rend(), begins_a_comparison);
    if (newest != out.lines.rend()) out.lines.erase(out.lines.begin(), newest.base() - 1);
    if (newest == out.lines.rend() && !held)
      for (runner::ProgressEvent& event : rows_as_events(folder_, out.complaints)) {
        std::string line = runner::json_line(event);
        out.lines.push_back({std::move(line), std::move(event)});
      }
  }
  for (const FollowedLine& line : out.lines)
    if (line.event) standing_.hear(*line.event);
  end_was_there_ = standing_.end() && (is_first_ || end_was_there_);
  is_first_ = false;
  out.state = state(held);
  return out;
}

EventFollower::~EventFollower() { close_file(); }

void EventFollower::close_file() {
  if (file_ >= 0) close(file_);
  file_ = -1;
  number_ = 0;
  rest_.clear();
}

bool EventFollower::is_replaced() const {
  struct stat ours {
  }, there{};
  if (stat(path_.c_str(), &there) != 0 || fstat(file_, &ours) != 0) return false;
  return ours.st_ino != there.st_ino || ours.st_dev != there.st_dev;
}

void EventFollower::read_to_the_end(std::vector<FollowedLine>& out) {
  char chunk[1 << 16];
  for (;;) {
    const ssize_t count = ::read(file_, chunk, sizeof chunk);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) throw Error("{}: cannot be read: {}", path_.string(), std::strerror(errno));
    if (count == 0) break;
    rest_.append(chunk, static_cast<std::size_t>(count));
  }
  std::size_t begin = 0;
  for (std::size_t end; (end = rest_.find('\n', begin)) != std::string::npos; begin = end + 1) {
    ++number_;
    std::string line = rest_.substr(begin, end + 1 - begin);
    try {
      auto event = runner::event_of_line(line);
      out.push_back({std::move(line), std::move(event)});
    } catch (const std::exception& error) {
      complaints_.push_back(
          fmt::format("{}:{}: left out: {}", path_.string(), number_, error.what()));
    }
  }
  rest_.erase(0, begin);
}

std::vector<FollowedLine> EventFollower::read() {
  std::vector<FollowedLine> out;
  if (file_ >= 0) {
    const bool replaced = is_replaced();
    read_to_the_end(out);
    if (!replaced) return out;
    close_file();
  }
  file_ = open(path_.c_str(), O_RDONLY | O_CLOEXEC);
  if (file_ < 0 && errno != ENOENT)
    throw Error("{}: cannot be read: {}", path_.string(), std::strerror(errno));
  if (file_ >= 0) read_to_the_end(out);
  return out;
}

std::vector<std::string> EventFollower::take_complaints() { return std::exchange(complaints_, {}); }

}  // namespace ringside::tools::watch
