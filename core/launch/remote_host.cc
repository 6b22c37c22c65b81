#include "core/launch/remote_host.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/time.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>

#include "core/base/error.h"
#include "core/base/error_text.h"
#include "core/base/json_fields.h"
#include "core/base/utf8.h"

namespace ringside {
namespace {

constexpr int listen_ms = 100;
constexpr const char* clock_question = "clock";
/// A wait for an answer is named once it has taken so long.
constexpr double late_s = 3;

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
  void stood(int rank, bool stands) override {
    launcher_.send({{"from", rank}, {"stands", stands}});
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

RemoteHost::RemoteHost(std::unique_ptr<JsonLine> agent, std::string name, AgentWait wait)
    : agent_(std::move(agent)),
      name_(std::move(name)),
      wait_(std::move(wait)),
      silence_(wait_.now(), links_with(wait_.address)) {
  constexpr timeval longest_send = {.tv_sec = 3, .tv_usec = 0};  // to an agent that does not read
  setsockopt(agent_->socket(), SOL_SOCKET, SO_SNDTIMEO, &longest_send, sizeof longest_send);
  beats_ = std::make_unique<Heartbeat>(*agent_);
}

RemoteHost::~RemoteHost() {
  constexpr double last_words_s = 2;
  say({{"end", true}});
  for (const double end = seconds_now() + last_words_s; agent_ && seconds_now() < end;)
    if (can_be_read(agent_->socket(), listen_ms)) hear();
}

std::vector<nlohmann::json> RemoteHost::hear() {
  try {
    silence_.end(wait_.now());
    if (auto values = agent_->receive()) return std::move(*values);
  } catch (const nlohmann::json::exception&) {
    // What says such things is no agent any more.
  }
  drop();
  return {};
}

void RemoteHost::drop() {
  beats_.reset();
  agent_.reset();
}

void RemoteHost::judge_silence() {
  if (!agent_ || silence_.seconds(wait_.now()) <= longest_silence_s) return;
  loss_ = fmt::format("stands still: it has said nothing for {} s", longest_silence_s);
  drop();
}

bool RemoteHost::refuse(const std::string& cause) {
  return agent_ && agent_->send({{"refused", cause}});
}

void RemoteHost::say(const nlohmann::json& value) {
  if (agent_) agent_->send(value);  // that the agent is gone is noticed when it is heard
}

void RemoteHost::start(const RunPlan& plan, int rank) {
  if (running_.empty()) silence_.end(wait_.now());
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
      if (value.contains("stands")) events.stood(rank, value["stands"]);
      if (!value.contains("status")) continue;
      std::erase(running_, rank);
      events.ended(rank, end_from_json(value));
    }
  }
  if (!running_.empty()) {
    if (const std::string news = silence_.news(wait_.now(), name_); agent_ && !news.empty())
      events.output(running_.front(), news + "\n");
    judge_silence();
  }
  if (agent_) return;
  for (const int rank : std::exchange(running_, {}))
    events.ended(rank, {{}, "", fmt::format("is lost: {} {}", name_, loss_), true});
}

ClockDifference RemoteHost::clock() {
  constexpr int trips = 8;
  constexpr double timeout_s = 5;
  ClockDifference best{.error_s = timeout_s};
  for (int trip = 0; trip < trips; ++trip) {
    const double before = seconds_now();
    const double there = ask(clock_question, "says what its clock shows", timeout_s).get<double>();
    const double after = seconds_now();
    if ((after - before) / 2 < best.error_s)
      best = {there - (before + after) / 2, (after - before) / 2};
  }
  return best;
}

bool RemoteHost::lost_idle() {
  while (agent_ && running_.empty() && can_be_read(agent_->socket(), 0)) {
    hear();  // an agent without ranks says only that it is alive
    lost_idle_ = !agent_;
  }
  if (agent_ && running_.empty()) {
    judge_silence();
    lost_idle_ = !agent_;
  }
  return lost_idle_;
}

nlohmann::json RemoteHost::ask(const nlohmann::json& question, const std::string& doing,
                               double timeout_s) {
  const int number = ++asked_;
  say({{"ask", question}, {"number", number}});
  silence_.end(wait_.now());
  WaitingTime waited(wait_.now(), beat_every_s);
  for (bool said = false; agent_;) {
    if (wait_.interrupted()) throw Error("interrupted");
    const double so_far = waited.seconds(wait_.now());
    if (so_far > timeout_s) throw Error("{} has not answered within {} s", name_, timeout_s);
    if (!said && so_far > late_s) {
      said = true;
      wait_.say(fmt::format("waiting for {}, which {}, for {} s at most", name_, doing, timeout_s));
    }
    if (!can_be_read(agent_->socket(), listen_ms)) {
      judge_silence();
      continue;
    }
    for (const nlohmann::json& value : hear()) {
      if (value.value("number", 0) != number) continue;
      if (value.contains("answer")) return value["answer"];
      if (value.contains("unanswered"))
        throw Error("{}: {}", name_, value["unanswered"].get<std::string>());
    }
  }
  throw Error("{} {}", name_, loss_);
}

namespace {

/// Does one thing that the launcher says.
void obey(const nlohmann::json& value, JsonLine& launcher, RankHost& host,
          const AgentDuties& duties) {
  if (value.contains("start")) {
    const int rank = value["start"];
    try {
      host.start(duties.read(value.at("plan")), rank);
    } catch (const std::exception& error) {
      Teller(launcher).ended(rank, {{}, "", fmt::format("did not start: {}", error.what())});
    }
  } else if (value.contains("line")) {
    host.send(value.at("to"), value["line"]);
  } else if (value.contains("signal")) {
    host.signal(value.at("to"), value["signal"]);
  } else if (value.contains("tell")) {
    host.tell(value["tell"]);
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

/// What the launcher has said; none if it has ended, or is no launcher.
std::optional<std::vector<nlohmann::json>> words_of(JsonLine& launcher) {
  try {
    return launcher.receive();
  } catch (const nlohmann::json::exception&) {
    return {};
  }
}

}  // namespace

ServiceEnd serve_ranks(JsonLine& launcher, RankHost& host, const AgentDuties& duties) {
  Teller teller(launcher);
  std::optional<Heartbeat> beats;  // once the launcher knows who this is
  Silence silence(duties.now(), links_with(duties.address));
  while (!duties.stopped()) {
    if (beats)
      if (const std::string news = silence.news(duties.now(), duties.launcher); !news.empty())
        duties.say(news);
    if (silence.seconds(duties.now()) > (beats ? longest_silence_s : duties.first_word_s))
      return beats ? ServiceEnd::silent : ServiceEnd::unheard;
    std::vector<pollfd> watched = {{launcher.socket(), POLLIN, 0}};
    for (const int file : host.files()) watched.push_back({file, POLLIN, 0});
    poll(watched.data(), watched.size(), host.expects_end() ? 1 : listen_ms);
    if (watched.front().revents != 0) {
      const auto values = words_of(launcher);
      if (!values) return beats ? ServiceEnd::lost : ServiceEnd::unheard;
      silence.end(duties.now());
      for (const nlohmann::json& value : *values) {
        if (!beats) beats.emplace(launcher);
        if (value.contains("end")) return ServiceEnd::over;
        if (value.contains("refused"))
          throw Error("this process is refused: {}", value["refused"].get<std::string>());
        obey(value, launcher, host, duties);
      }
    }
    host.read(teller);
  }
  return ServiceEnd::stopped;
}

}  // namespace ringside
