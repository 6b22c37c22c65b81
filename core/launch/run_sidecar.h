// RunSidecar: help that a run needs on its hosts beside the processes of its ranks.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace ringside {

/// Works while the ranks of one run start, run and end; made before them, and destroyed after them.
class RunSidecar {
 public:
  /// Ends all that it has started; may block for a few seconds.
  virtual ~RunSidecar() = default;

  /// The files to poll for work.
  virtual std::vector<int> files() const = 0;
  /// Takes a host's answer to RankHost::tell().
  virtual void hear(const nlohmann::json& told) = 0;
  /// Notes that a rank has set a key of the run's store.
  virtual void note_set(const std::string& key) = 0;
  /// Does its pending work without blocking. Called at least ten times a second.
  virtual void attend() = 0;
  /// The reason why the run cannot go on, in one line; empty if it can. If a rank was killed too,
  /// the kill counts as the cause; if a rank ended by itself, this reason does.
  virtual std::string failure() const = 0;
};

}  // namespace ringside
