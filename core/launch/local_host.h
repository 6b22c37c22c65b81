// Ranks as processes of this host.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/base/control_group.h"
#include "core/launch/rank_host.h"

namespace ringside {

/// The program that runs as a rank, unless the plan names another one (RunPlan::program). A rank
/// does not inherit the launcher's standard output and error: their reader may stop reading, and
/// that must not stop a rank.
struct RankProgram {
  std::string file;
  std::vector<std::string> arguments;    // the number of the rank's socket is appended
  std::vector<std::string> environment;  // "NAME=VALUE"; entries of the rank's plan take precedence
};

/// Additions to a rank's process, besides its plan and its program.
struct RankAddition {
  std::vector<std::string> environment{};  // as RankPlan::environment, which takes precedence
  std::vector<int> files{};                // open files that it has too, under the same numbers
};

/// Ranks die with this process, and at the latest with this object.
class LocalHost : public RankHost {
 public:
  /// `group` is that of this process, and so of its ranks.
  explicit LocalHost(RankProgram program, ControlGroup group = ControlGroup());
  ~LocalHost() override;

  void start(const RunPlan& plan, int rank) override { start(plan, rank, {}); }
  void start(const RunPlan& plan, int rank, const RankAddition& addition);
  void send(int rank, const nlohmann::json& value) override;
  void signal(int rank, int number) override;
  std::vector<int> files() const override;
  bool expects_end() const override;
  void read(RankEvents& events) override;

 private:
  class RankProcess;

  RankProgram program_;
  ControlGroup group_;
  std::map<int, std::unique_ptr<RankProcess>> ranks_;
};

}  // namespace ringside
