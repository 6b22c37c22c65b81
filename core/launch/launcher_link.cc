#include <fcntl.h>

#include <nlohmann/json.hpp>
#include <thread>

#include "core/base/error.h"
#include "core/base/seconds_now.h"
#include "core/base/utf8.h"
#include "core/launch/json_line.h"
#include "core/launch/launch.h"
#include "core/launch/link_store.h"

namespace ringside {
struct LauncherLink::State {
  explicit State(int socket) : line(socket), store(line) {}

  JsonLine line;
  LinkStore store;
  int rank = -1;
  RunPlan plan;
  std::thread receiver;

  /// The first line is the rank's plan; all later lines are answers of the store.
  void receive_answers() {
    while (auto values = line.receive())
      for (const auto& value : *values) take(value);
  }
  void take(const nlohmann::json& value) {
    const auto& [key, text] = value.at("value").get<std::pair<std::string, std::string>>();
    store.answer(key, text);
  }
};

LauncherLink::LauncherLink(int socket, const DefaultOptions& defaults) {
  if (fcntl(socket, F_GETFD) < 0)
    throw Error("socket {} is not open; ranks are started by `ringside compare` and `train`",
                socket);
  fcntl(socket, F_SETFD, FD_CLOEXEC);
  state_ = std::make_unique<State>(socket);
  while (state_->rank < 0) {
    const auto values = state_->line.receive();
    if (!values) throw Error("the launcher closed socket {} before it sent a plan", socket);
    for (const auto& value : *values) {
      if (state_->rank >= 0) {
        state_->take(value);
        continue;
      }
      state_->plan = run_plan_from_json(value.at("plan"), defaults);
      state_->rank = value.at("rank").get<int>();
    }
  }
  state_->receiver = std::thread([this] { state_->receive_answers(); });
}

LauncherLink::~LauncherLink() {
  state_->line.stop_receiving();
  if (state_->receiver.joinable()) state_->receiver.join();
}

int LauncherLink::rank() const { return state_->rank; }
const RunPlan& LauncherLink::plan() const { return state_->plan; }
Store& LauncherLink::store() { return state_->store; }

void LauncherLink::report_progress(const nlohmann::json& progress) {
  state_->line.send({{"progress", progress}});
}
void LauncherLink::finish(const nlohmann::json& record) { state_->line.send({{"record", record}}); }
void LauncherLink::fail(const std::string& message) {
  state_->line.send({{"error", utf8_text(message)}, {"time", seconds_now()}});
}

}  // namespace ringside
