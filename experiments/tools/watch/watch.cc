#include "experiments/tools/watch/watch.h"

#include <algorithm>

#include "core/base/error.h"
#include "experiments/runner/results/folder_lock.h"
#include "experiments/runner/results/results.h"
#include "experiments/tools/watch/rows_as_events.h"

namespace ringside {
namespace {

namespace fs = std::filesystem;

bool begins_a_comparison(const FollowedLine& line) {
  return line.event && std::holds_alternative<ComparisonBegan>(line.event->what);
}

}  // namespace

Watch::Watch(fs::path folder)
    : folder_(std::move(folder)), follower_(folder_ / ResultsFolder::events_file) {
  if (!fs::is_directory(folder_))
    throw Error("{}: no such folder; name a folder of results, as results/quickstart",
                folder_.string());
}

Watched Watch::state(bool held) const {
  if (!standing_.began()) return held ? Watched::preparing : Watched::died;
  if (!standing_.end()) return held ? Watched::running : Watched::died;
  // A process that has the folder although the end was there already is about to make more runs.
  return held && end_was_there_ ? Watched::preparing : Watched::ended;
}

Watch::Look Watch::look() {
  // The folder is asked first: whoever lets go of it has told everything before.
  const bool held = is_held(folder_);
  Look out{.lines = follower_.read(), .complaints = follower_.take_complaints()};
  if (is_first_) {
    const auto newest = std::find_if(out.lines.rbegin(), out.lines.rend(), begins_a_comparison);
    if (newest != out.lines.rend()) out.lines.erase(out.lines.begin(), newest.base() - 1);
    if (newest == out.lines.rend() && !held)
      for (ProgressEvent& event : rows_as_events(folder_, out.complaints)) {
        std::string line = json_line(event);
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

}  // namespace ringside
