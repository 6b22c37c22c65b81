// ParameterServer: its state between two steps, which checkpoints have.
#include <algorithm>

#include "core/base/error.h"
#include "ps/protocol/parameter_server.h"

namespace ringside::ps {

bool ParameterServer::is_after(std::int64_t steps) const {
  return std::ranges::all_of(
      chunks_, [&](const ChunkState& state) { return state.version() == steps * config_.pushes; });
}

/// Under other rules than bsp gradients wait on the server, and workers have older values.
void ParameterServer::check_shows_state() const {
  if (!policy_->values_rest() || is_elastic() || codes_.of_pushes() || codes_.of_pulls())
    throw Error(
        "a server shows all of its state under consistency 'bsp' alone, where nothing is "
        "compressed");
}

/// Chunks that follow each other in the model make one range.
void ParameterServer::visit_state(const StateVisitor& visit) {
  check_shows_state();
  std::vector<OwnStretch> stretches;
  for (const ChunkState& state : chunks_) {
    const std::int64_t begin = state.chunk().begin;
    std::int64_t count = state.chunk().count;
    OwnStretch own{state.begin(), begin, {}};
    if (!stretches.empty()) {
      const OwnStretch& before = stretches.back();
      if (before.model + before.parameters.count() == begin) {
        own = before;
        count += before.parameters.count();
        stretches.pop_back();
      }
    }
    own.parameters = parameters_.range(own.own, count);
    stretches.push_back(own);
  }
  if (optimizer_) visit_optimizer(*optimizer_, stretches, {}, device(), device(), visit);
}

/// With its versions and clocks, the server refuses every push of an earlier step, and every push
/// of a later one than the next.
void ParameterServer::restored(std::int64_t steps, std::int64_t skipped) {
  check_shows_state();
  for (ChunkState& state : chunks_) state.restored(steps * config_.pushes, device().clock().now());
  rounds_.step = steps;
  config_.warmup += steps;
  if (!optimizer_) return;
  const ParameterRange all{0, parameters_, {}};
  optimizer_->restored({&all, 1}, skipped);
}

}  // namespace ringside::ps
