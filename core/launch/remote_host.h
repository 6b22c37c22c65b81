// Ranks of another host: both ends of the connection between the launcher and an agent there.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "core/base/waiting_time.h"
#include "core/launch/json_line.h"
#include "core/launch/rank_host.h"

namespace ringside {

/// The launcher's end. If the connection ends, so do the ranks, as far as the launcher can know. An
/// agent that does not act for five seconds while its ranks run is given up.
///
/// The launcher says {"start": rank, "plan"}, {"to": rank, "line"}, {"signal": number, "to": rank},
/// {"ask": question, "number"}, {"tell": what concerns no rank}, {"ping": true} and {"end": true}.
/// The agent says {"from": rank, "line"}, {"from": rank, "output"}, {"from": rank, "status",
/// "last_line", "cause", "memory"} of a rank that has ended, {"answer": ..., "number"},
/// {"unanswered": cause, "number"} and {"told": ...}. What the clock shows an agent answers by
/// itself.
class RemoteHost : public RankHost {
 public:
  /// `name` is what errors call the agent: "agent 3 on host1 (10.0.0.2)".
  RemoteHost(std::unique_ptr<JsonLine> agent, std::string name);
  /// Tells the agent that no more ranks will be started, and blocks until the agent has ended the
  /// connection, two seconds at most.
  ~RemoteHost() override;

  void start(const RunPlan& plan, int rank) override;
  void send(int rank, const nlohmann::json& value) override;
  void signal(int rank, int number) override;
  void drop() override { agent_.reset(); }
  void tell(const nlohmann::json& value) override;
  /// Whether the connection has ended.
  bool lost() const override { return !agent_; }
  std::vector<int> files() const override;
  bool expects_end() const override { return lost() && !running_.empty(); }
  void read(RankEvents& events) override;
  /// By the shortest of some round trips, as NTP does it (RFC 5905, section 8): the error is half
  /// of that trip.
  ClockDifference clock() override;

  const std::string& name() const { return name_; }
  /// Looks whether the connection has ended while none of the agent's ranks ran; does not block.
  bool lost_idle();
  /// Asks the agent something while none of its ranks runs, and blocks until the answer has come.
  /// Throws Error that names the agent if the connection ends, if the agent cannot answer, or if
  /// that takes longer than `timeout_s`.
  nlohmann::json ask(const nlohmann::json& question, double timeout_s);

 private:
  void say(const nlohmann::json& value);
  /// What has come; without a word that makes sense the connection is over.
  std::vector<nlohmann::json> hear();

  std::unique_ptr<JsonLine> agent_;
  std::string name_;
  std::vector<int> running_;
  bool lost_idle_ = false;
  int asked_ = 0;  // the number of the last question
  double pinged_s_ = 0;
  std::optional<WaitingTime> silence_;  // since the agent was heard last
};

/// What an agent does beside starting ranks.
struct AgentDuties {
  DefaultOptions defaults;  // with which plans are read
  /// Answers a question of the launcher; may throw.
  std::function<nlohmann::json(const nlohmann::json& question)> answer;
  /// Whether the agent is to end; called ten times a second.
  std::function<bool()> stopped;
};

/// The agent's end: starts ranks on `host` as the launcher says. Blocks until the launcher ends the
/// job (returns true), the connection ends, or the agent is to end. The caller then drops `host`,
/// and with it the ranks that still run. Throws Error if the launcher says {"refused": cause}.
bool serve_ranks(JsonLine& launcher, RankHost& host, const AgentDuties& duties);

}  // namespace ringside
