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

  /// What to poll for work.
  virtual std::vector<int> files() const = 0;
  /// One of the hosts answers what it was told (RankHost::tell()).
  virtual void hear(const nlohmann::json& told) = 0;
  /// A rank has set a key of the run's store.
  virtual void note_set(const std::string& key) = 0;
  /// Does what there is to do; does not block. Called ten times a second at least.
  virtual void attend() = 0;
  /// One line that says why the run cannot go on; empty if it can. If a rank was killed too, that
  /// is the cause; if a rank ended by itself, this is.
  virtual std::string failure() const = 0;
};

}  // namespace ringside
