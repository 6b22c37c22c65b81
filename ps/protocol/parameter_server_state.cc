// ParameterServer: its state between two steps, which checkpoints have.
#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "core/base/error.h"
#include "ps/protocol/parameter_server.h"

namespace ringside::ps {
/// Where workers do not wait for each other, no number of updates tells that (Meetings).
bool ParameterServer::is_after(std::int64_t steps) const {
  return is_bulk_synchronous() && std::ranges::all_of(chunks_, [&](const ChunkState& state) {
           return state.version() == steps * config_.pushes;
         });
}

void ParameterServer::visit_state(const StateVisitor& visit) {
  shard_.visit_state(visit);
  if (codes_.of_pulls())
    for (std::size_t index = 0; index < chunks_.size(); ++index)
      codes_.visit_state(index, chunks_[index].chunk().begin, visit);
  if (compensation_)
    for (std::size_t index = 0; index < chunks_.size(); ++index)
      compensation_->visit_state(index, chunks_[index].chunk().begin, visit);
}

/// With its versions and clocks, the server refuses every push of an earlier step, and every push
/// of a later one than the next.
void ParameterServer::restored(std::int64_t steps, std::int64_t skipped) {
  const std::int64_t version = policy_->updates_after(steps, workers()) * config_.pushes;
  for (ChunkState& state : chunks_)
    state.restored(version, steps * config_.pushes, device().clock().now());
  if (rounds_) rounds_->restored(steps);
  config_.warmup += steps;
  budget_.restored(steps);
  std::ranges::fill(copies_, Values{});
  if (codes_.of_pulls())
    codes_.restored(codes_.steps(), std::vector<std::int64_t>(chunks_.size(), version));
  shard_.restored(skipped);
}

/// Under bsp all of it follows from the number of steps, but for that of codes.
nlohmann::ordered_json ParameterServer::course() const {
  nlohmann::ordered_json out = nlohmann::ordered_json::object();
  if (codes_.of_pulls()) out["pulls"] = codes_.steps();
  if (is_bulk_synchronous()) return out;
  out["given"] = budget_.given();
  out["speeds"] = budget_.speeds();
  out["merges"] = merges_.count();
  out["chunks"] = nlohmann::ordered_json::array();
  for (const ChunkState& state : chunks_) out["chunks"].push_back(state.course());
  return out;
}

void ParameterServer::restore_course(const nlohmann::json& course) {
  if (!is_bulk_synchronous()) {
    const nlohmann::json& chunks = course.at("chunks");
    auto given = course.at("given").get<std::vector<std::int64_t>>();
    auto speeds = course.at("speeds").get<std::vector<double>>();
    const auto count = static_cast<std::size_t>(workers());
    if (given.size() != count || speeds.size() != count || chunks.size() != chunks_.size())
      throw Error("it is that of {} workers and {} chunks, but there are {} and {}", given.size(),
                  chunks.size(), workers(), chunks_.size());
    budget_.restored(std::move(given), std::move(speeds));
    merges_.restored(course.at("merges").get<std::int64_t>());
    for (std::size_t index = 0; index < chunks_.size(); ++index)
      chunks_[index].restore_course(chunks[index], device().clock().now());
  }
  if (!codes_.of_pulls()) return;
  std::vector<std::int64_t> versions;
  for (const ChunkState& state : chunks_) versions.push_back(state.version());
  const auto steps = course.at("pulls").get<std::vector<std::vector<std::uint32_t>>>();
  if (steps.size() != chunks_.size()) throw Error("it has the codes of {} chunks", steps.size());
  codes_.restored(steps, versions);
}

}  // namespace ringside::ps
