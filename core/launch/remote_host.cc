#include "core/launch/remote_host.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/time.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>

#include "core/base/error.h"
#include "core/base/explain.h"
#include "core/base/json_fields.h"
#include "core/base/seconds_now.h"
#include "core/base/utf8.h"

namespace ringside {
namespace {

constexpr int poll_ms = 100;
constexpr const char* clock_question = "clock";
/// While ranks run, an agent is asked so often whether it acts, and may be silent for so long.
constexpr double ping_every_s = 1, longest_silence_s = 5;

bool can_be_read(int file, int timeout_ms) {
  pollfd watched{file, POLLIN, 0};
  return poll(&watched, 1, timeout_ms) > 0;
}

/// Tells the launcher what ranks do.
class Teller : public RankEvents {
 public:
  explicit Teller(JsonLine& launcher) : launcher_(launcher) {}

  void line(int rank, const nlohmann::json& value) override {
    launcher_.send({{"from", rank}, {"line", value}});
  }
  void output(int rank, const std::string& text) override {
    launcher_.send({{"from", rank}, {"output", utf8_text(text)}});
  }
  void ended(int rank, const RankEnd& end) override {
    launcher_.send({{"from", rank},
                    {"status", end.status.value_or(-1)},
                    {"last_line", utf8_text(end.last_line)},
                    {"cause", end.cause},
                    {"memory", end.memory}});
  }
  void told(const nlohmann::json& value) override { launcher_.send({{"told", value}}); }

 private:
  JsonLine& launcher_;
};

RankEnd end_from_json(const nlohmann::json& in) {
  RankEnd end{.status = {}, .last_line = in.at("last_line"), .cause = in.at("cause")};
  end.memory = in.value("memory", "");
  if (const int status = in.at("status"); status >= 0) end.status = status;
  return end;
}

}  // namespace

RemoteHost::RemoteHost(std::unique_ptr<JsonLine> agent, std::string name)
    : agent_(std::move(agent)), name_(std::move(name)) {
  constexpr timeval longest_send = {.tv_sec = 3, .tv_usec = 0};  // to an agent that does not read
  setsockopt(agent_->socket(), SOL_SOCKET, SO_SNDTIMEO, &longest_send, sizeof longest_send);
}

RemoteHost::~RemoteHost() {
  constexpr double last_words_s = 2;
  say({{"end", true}});
  for (const double end = seconds_now() + last_words_s; agent_ && seconds_now() < end;)
    if (can_be_read(agent_->socket(), poll_ms)) hear();
}

std::vector<nlohmann::json> RemoteHost::hear() {
  try {
    if (silence_) silence_.emplace(seconds_now(), ping_every_s);
    if (auto values = agent_->receive()) return std::move(*values);
  } catch (const nlohmann::json::exception&) {
    // What says such things is no agent any more.
  }
  agent_.reset();
  return {};
}

void RemoteHost::say(const nlohmann::json& value) {
  if (agent_) agent_->send(value);  // that the agent is gone is noticed when it is heard
}

void RemoteHost::start(const RunPlan& plan, int rank) {
  if (running_.empty()) silence_.emplace(seconds_now(), ping_every_s);
  running_.push_back(rank);
  say({{"start", rank}, {"plan", to_json(plan)}});
}

void RemoteHost::send(int rank, const nlohmann::json& value) {
  say({{"to", rank}, {"line", value}});
}

void RemoteHost::signal(int rank, int number) { say({{"to", rank}, {"signal", number}}); }

void RemoteHost::tell(const nlohmann::json& value) { say({{"tell", value}}); }

std::vector<int> RemoteHost::files() const {
  return agent_ ? std::vector<int>{agent_->socket()} : std::vector<int>{};
}

void RemoteHost::read(RankEvents& events) {
  while (agent_ && can_be_read(agent_->socket(), 0)) {
    for (const nlohmann::json& value : hear()) {
      if (value.contains("told")) events.told(value["told"]);
      if (!value.contains("from")) continue;  // as an answer that comes too late
      const int rank = value.at("from");
      if (std::find(running_.begin(), running_.end(), rank) == running_.end()) continue;
      if (value.contains("line")) events.line(rank, value["line"]);
      if (value.contains("output")) events.output(rank, value["output"].get<std::string>());
      if (!value.contains("status")) continue;
      std::erase(running_, rank);
      events.ended(rank, end_from_json(value));
    }
  }
  if (agent_ && !running_.empty()) {
    const double now = seconds_now();
    if (now - pinged_s_ > ping_every_s) {
      say({{"ping", true}});
      pinged_s_ = now;
    }
    if (silence_->seconds(now) > longest_silence_s) drop();
  }
  if (agent_) return;
  for (const int rank : std::exchange(running_, {}))
    events.ended(rank,
                 {{}, "", fmt::format("is lost: {} cannot be reached any more", name_), true});
}

ClockDifference RemoteHost::clock() {
  constexpr int trips = 8;
  constexpr double timeout_s = 5;
  ClockDifference best{.error_s = timeout_s};
  for (int trip = 0; trip < trips; ++trip) {
    const double before = seconds_now();
    const double there = ask(clock_question, timeout_s).get<double>();
    const double after = seconds_now();
    if ((after - before) / 2 < best.error_s)
      best = {there - (before + after) / 2, (after - before) / 2};
  }
  return best;
}

bool RemoteHost::lost_idle() {
  while (agent_ && running_.empty() && can_be_read(agent_->socket(), 0)) {
    hear();  // an agent without ranks says nothing
    lost_idle_ = !agent_;
  }
  return lost_idle_;
}

nlohmann::json RemoteHost::ask(const nlohmann::json& question, double timeout_s) {
  const int number = ++asked_;
  say({{"ask", question}, {"number", number}});
  const double end = seconds_now() + timeout_s;
  while (agent_ && seconds_now() < end) {
    if (!can_be_read(agent_->socket(), poll_ms)) continue;
    for (const nlohmann::json& value : hear()) {
      if (value.value("number", 0) != number) continue;
      if (value.contains("answer")) return value["answer"];
      if (value.contains("unanswered"))
        throw Error("{}: {}", name_, value["unanswered"].get<std::string>());
    }
  }
  if (lost()) throw Error("{} cannot be reached any more", name_);
  throw Error("{} has not answered within {} s", name_, timeout_s);
}

namespace {

/// Does one thing that the launcher says.
void obey(const nlohmann::json& value, JsonLine& launcher, RankHost& host,
          const AgentDuties& duties) {
  if (value.contains("start")) {
    const int rank = value["start"];
    try {
      host.start(run_plan_from_json(value.at("plan"), duties.defaults), rank);
    } catch (const std::exception& error) {
      Teller(launcher).ended(rank, {{}, "", fmt::format("did not start: {}", error.what())});
    }
  } else if (value.contains("line")) {
    host.send(value.at("to"), value["line"]);
  } else if (value.contains("signal")) {
    host.signal(value.at("to"), value["signal"]);
  } else if (value.contains("tell")) {
    host.tell(value["tell"]);
  } else if (value.contains("ping")) {
    launcher.send({{"pong", true}});
  } else if (value.contains("ask")) {
    const int number = value.at("number");
    try {
      const nlohmann::json& question = value["ask"];
      launcher.send({{"number", number},
                     {"answer", question == clock_question ? nlohmann::json(seconds_now())
                                                           : duties.answer(question)}});
    } catch (const std::exception& error) {
      launcher.send({{"number", number}, {"unanswered", utf8_text(error.what())}});
    }
  }
}

}  // namespace

bool serve_ranks(JsonLine& launcher, RankHost& host, const AgentDuties& duties) {
  Teller teller(launcher);
  while (!duties.stopped()) {
    std::vector<pollfd> watched = {{launcher.socket(), POLLIN, 0}};
    for (const int file : host.files()) watched.push_back({file, POLLIN, 0});
    poll(watched.data(), watched.size(), host.expects_end() ? 1 : poll_ms);
    if (watched.front().revents != 0) {
      const auto values = launcher.receive();
      if (!values) return false;
      for (const nlohmann::json& value : *values) {
        if (value.contains("end")) return true;
        if (value.contains("refused"))
          throw Error("this process is refused: {}", value["refused"].get<std::string>());
        obey(value, launcher, host, duties);
      }
    }
    host.read(teller);
  }
  return false;
}

}  // namespace ringside
