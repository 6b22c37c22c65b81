// MPI's launcher and its daemons, beside the ranks of one run.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/base/json_line.h"
#include "core/base/local_socket.h"
#include "core/base/seconds_now.h"
#include "core/comm/inter_host_backend.h"
#include "core/launch/rank_host.h"
#include "core/launch/run_sidecar.h"

namespace ringside::runner {

/// Makes the ranks of a run members of one MPI world, whichever launcher has started the job. It
/// starts MPI's launcher on this host, which starts its daemons on the other hosts through
/// `ringside on`, and a shim for each rank (member_host.h).
class MpiWorld : public RunSidecar {
 public:
  /// `agents` start ranks and commands, by RankHome::agent; the first is this process. `now` is the
  /// clock of deadlines, in seconds. Throws Error if the launcher is missing.
  MpiWorld(const RunPlan& plan, InterHostBackend library, std::vector<RankHost*> agents,
           const std::vector<std::string>& environment, std::function<double()> now = seconds_now);
  ~MpiWorld() override;
  MpiWorld(const MpiWorld&) = delete;
  MpiWorld& operator=(const MpiWorld&) = delete;

  std::vector<int> files() const override;
  void hear(const nlohmann::json& told) override;
  void note_set(const std::string& key) override;
  void attend() override;
  std::string failure() const override { return failure_; }

 private:
  /// The launcher (number 0), or one of its daemons.
  struct Command {
    int agent = 0;
    std::string host{};  // for people
    /// Its `ringside on` process on this host; none for the launcher.
    std::unique_ptr<JsonLine> asks{};
    std::string said{};  // the beginning of its output
    std::optional<int> status{};
  };

  void start_launcher(const std::string& launcher);
  void run(const std::string& address, const std::string& text, std::unique_ptr<JsonLine> asks);
  void ended(int number, int status);
  void fail(const std::string& why);
  /// Fails if ranks are late.
  void check_time();
  /// The ranks for which `there` is false: "rank 2 on host1".
  std::string missing(const std::vector<bool>& there) const;

  const RunPlan& plan_;
  InterHostBackend library_;
  std::function<double()> now_;
  std::vector<RankHost*> agents_;
  std::string name_, folder_;
  std::unique_ptr<LocalListener> listener_;
  std::vector<std::unique_ptr<JsonLine>> newcomers_;
  std::map<int, Command> commands_;
  std::vector<bool> came_, entered_;  // by rank: has been started; has begun MPI
  double waits_since_ = 0;            // when the world began, or the last rank was started
  std::optional<std::pair<double, int>> gone_;  // time of the first shim's end, and its rank
  /// The time and the description of the first end of the launcher or a daemon with an error of its
  /// own.
  std::optional<std::pair<double, std::string>> gave_up_;
  int left_ = 0;  // number of agents without anything left
  std::string failure_;
};

}  // namespace ringside::runner
