// Ranks on another host: both ends of the connection between the launcher and the agent there.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "core/base/seconds_now.h"
#include "core/launch/heartbeat.h"
#include "core/launch/rank_host.h"

namespace ringside {

/// Callbacks of a launcher that waits for an agent.
struct AgentWait {
  std::function<bool()> interrupted = [] { return false; };
  /// Gets one line about a wait that has become long.
  std::function<void(const std::string&)> say = [](const std::string&) {};
  std::function<double()> now = seconds_now;
  std::string address{};  // of the agent's host, to look at the links with it; empty: not known
};

/// The launcher's end. If the connection ends, the launcher counts the ranks as ended. An awaited
/// agent that is silent for `longest_silence_s` is given up as stopped.
///
/// The launcher sends {"start": rank, "plan"}, {"to": rank, "line"}, {"signal": number, "to":
/// rank}, {"ask": question, "number"}, {"tell": a message that concerns no rank}, {"refused":
/// cause} and {"end": true}. The agent sends {"from": rank, "line"}, {"from": rank, "output"},
/// {"from": rank, "stands": whether a signal has stopped it}, {"from": rank, "status", "last_line",
/// "cause", "memory"} of a rank that has ended, {"answer": ..., "number"}, {"unanswered": cause,
/// "number"} and {"told": ...}. An agent answers questions about its clock without AgentDuties.
/// Both send {"alive": true} (Heartbeat).
class RemoteHost : public RankHost {
 public:
  /// The text of loss() for a connection that has ended.
  static constexpr const char* ended = "cannot be reached any more";

  /// `name` names the agent in errors: "agent 3 on host1 (10.0.0.2)".
  RemoteHost(std::unique_ptr<JsonLine> agent, std::string name, AgentWait wait = {});
  /// Tells the agent that no more ranks will be started, and blocks until the agent has ended the
  /// connection, two seconds at most.
  ~RemoteHost() override;

  void start(const RunPlan& plan, int rank) override;
  void send(int rank, const nlohmann::json& value) override;
  void signal(int rank, int number) override;
  void drop() override;
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
  /// Checks whether the agent was lost while none of its ranks ran; does not block.
  bool lost_idle();
  /// The way in which the agent was lost, as text after its name.
  const std::string& loss() const { return loss_; }
  /// Sends the agent the reason why there is no work for it. Returns false if the agent is lost.
  bool refuse(const std::string& cause);
  /// Asks the agent something while none of its ranks runs, and blocks until the answer has come.
  /// `doing` describes the agent's work for the answer: "looks at its data". Throws Error that
  /// names the agent if it is lost, if it cannot answer, or if that takes longer than `timeout_s`,
  /// and Error if the launcher is interrupted.
  nlohmann::json ask(const nlohmann::json& question, const std::string& doing, double timeout_s);

 private:
  void say(const nlohmann::json& value);
  /// The messages that have arrived. An invalid one ends the connection.
  std::vector<nlohmann::json> hear();
  /// Gives up an agent that has been silent for too long.
  void judge_silence();

  std::unique_ptr<JsonLine> agent_;
  std::string name_;
  AgentWait wait_;
  std::string loss_ = ended;
  std::vector<int> running_;
  bool lost_idle_ = false;
  int asked_ = 0;  // the number of the last question
  Silence silence_;
  std::unique_ptr<Heartbeat> beats_;
};

/// Duties of an agent besides starting ranks.
struct AgentDuties {
  ReadPlan read;
  /// Answers a question of the launcher; may throw.
  std::function<nlohmann::json(const nlohmann::json& question)> answer;
  /// Whether the agent is to end; called ten times a second.
  std::function<bool()> stopped;
  /// The deadline for the launcher's first message.
  double first_word_s = longest_silence_s;
  /// Gets one line about a launcher that is silent, which the line calls `launcher`.
  std::function<void(const std::string&)> say = [](const std::string&) {};
  std::string launcher = "the launcher";
  std::function<double()> now = seconds_now;
  std::string address{};  // of the launcher's host; empty: not known
};

/// The reason for the end of an agent.
enum class ServiceEnd {
  over,     // the launcher has ended the job
  stopped,  // AgentDuties::stopped
  lost,     // the connection has ended
  silent,   // the launcher has been silent for `longest_silence_s`
  unheard   // the connection has ended before a first message, or none has arrived in time
};

/// The agent's end: starts ranks on `host` at the launcher's requests, and blocks until the agent
/// ends. The caller then drops `host`, and with it the ranks that still run. Throws Error if the
/// launcher sends {"refused": cause}.
ServiceEnd serve_ranks(JsonLine& launcher, RankHost& host, const AgentDuties& duties);

}  // namespace ringside
