#include "ps/protocol/server_state.h"

#include <nlohmann/json.hpp>

#include "core/base/error.h"

namespace ringside::ps {

void ServerState::visit_state(const StateVisitor&) {
  throw Error("this server does not show its state");
}

void ServerState::restored(std::int64_t, std::int64_t) {
  throw Error("this server cannot go on from a state");
}

nlohmann::ordered_json ServerState::course() const { return nlohmann::ordered_json::object(); }

void ServerState::restore_course(const nlohmann::json&) {}

}  // namespace ringside::ps
