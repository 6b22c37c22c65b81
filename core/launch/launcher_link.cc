#include <fcntl.h>

#include <nlohmann/json.hpp>
#include <optional>

#include "core/base/error.h"
#include "core/base/seconds_now.h"
#include "core/base/utf8.h"
#include "core/launch/launch.h"
#include "core/launch/rank_link.h"

namespace ringside {
struct LauncherLink::State {
  explicit State(int socket) : link(std::make_unique<JsonLine>(socket)) {}

  RankLink link;
  int rank = -1;
  /// Made when it is read: even an empty plan has the options of all models, which closes their
  /// list before plug-ins are there.
  std::optional<RunPlan> plan;
};

LauncherLink::LauncherLink(int socket, const ReadPlan& read) {
  if (fcntl(socket, F_GETFD) < 0)
    throw Error("socket {} is not open; ranks are started by `ringside compare` and `train`",
                socket);
  fcntl(socket, F_SETFD, FD_CLOEXEC);
  state_ = std::make_unique<State>(socket);
  const auto first = state_->link.hear();
  if (!first) throw Error("the launcher closed socket {} before it sent a plan", socket);
  state_->plan = read(first->at("plan"));
  state_->rank = first->at("rank").get<int>();
}

LauncherLink::~LauncherLink() = default;

int LauncherLink::rank() const { return state_->rank; }
const RunPlan& LauncherLink::plan() const { return *state_->plan; }
Store& LauncherLink::store() { return state_->link.store(); }
RankLink& LauncherLink::link() { return state_->link; }

void LauncherLink::report_progress(const nlohmann::json& progress) {
  state_->link.send({{"progress", progress}});
}
void LauncherLink::finish(const nlohmann::json& record) { state_->link.send({{"record", record}}); }
void LauncherLink::fail(const std::string& message) {
  state_->link.send({{"error", utf8_text(message)}, {"time", seconds_now()}});
}

}  // namespace ringside
