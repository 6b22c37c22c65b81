#include "ps/protocol/parameter_shard.h"

#include <string>
#include <utility>

#include "core/optim/optimizers.h"
#include "core/scheme/parameter_map.h"
#include "ps/protocol/push_flow.h"
#include "ps/protocol/server.h"

namespace ringside::ps {

ParameterShard::ParameterShard(const Model& model, const std::vector<ChunkState>& chunks,
                               const ServerConfig& config, const Policy& policy, Device& device,
                               Timeline& timeline)
    : chunks_(chunks), policy_(policy), device_(device), timeline_(timeline), times_(device) {
  if (chunks.empty()) return;
  const bool elastic = config.rules.consistency == Consistency::easgd;
  const bool merges = policy.grace_s().has_value();
  const std::int64_t count = chunks.back().begin() + chunks.back().chunk().count;
  values_ = device.tensor({count}, MemoryKind::parameter, config.dtype);
  if (chunks.front().wanted() > 1 || merges || config.pushes > 1 ||
      (!elastic && rounds_of(config.optimizer, config.skips_steps()) > 0))
    sums_.emplace(device, count, config.dtype, GradientSums::Of{config.pushes, merges});
  std::vector<ModelPiece> pieces;
  for (const ChunkState& state : chunks) {
    const Chunk& chunk = state.chunk();
    pieces.push_back({state.begin(), chunk.begin, chunk.count});
    const std::int64_t first = model.first_parameter(chunk.unit);
    config.initial_values->write(*model.units[chunk.unit], first, chunk.begin - first,
                                 values_.range(state.begin(), chunk.count));
  }
  if (elastic) {
    centre_.emplace(device, config.moving_rate);
  } else if (config.make_optimizer) {
    optimizer_ = config.make_optimizer(device, values_);
  } else {
    const UpdateRules rules =
        update_rules(config.optimizer, config.rules, config.steps, config.workers);
    optimizer_ = make_optimizer(rules.optimizer, {rules.updates, config.workers, config.skips},
                                device, values_, parameter_map(model, pieces));
  }
}

Tensor ParameterShard::values(std::size_t chunk) const {
  return values_.range(chunks_[chunk].begin(), chunks_[chunk].chunk().count);
}

void ParameterShard::apply(std::size_t chunk, const PushedGradient& gradient,
                           const DelayCompensation* compensation) {
  const ChunkState& state = chunks_[chunk];
  SpanNote note{.track = Server::track,
                .bytes = static_cast<std::int64_t>(gradient.values.bytes())};
  if (timeline_.traces()) {
    const std::int64_t flow =
        push_flow(gradient.worker, gradient.step, gradient.push, state.chunk().begin);
    note.flows = {flow};
    flows_[chunk].push_back(flow);
  }
  const auto span = timeline_.traced(
      Server::track, [&] { return fmt::format("apply gradient of worker {}", gradient.worker); },
      std::move(note));
  if (sums_)
    sums_->add(state, gradient);
  else if (!compensation || gradient.read_version == gradient.update)
    alone_ = gradient.values;
  else
    alone_ = compensation->corrected(chunk, gradient.worker, gradient.values, values(chunk));
}

/// The share of their mean that the gradients of an update add up to: less than 1 if some are
/// missing, and the sum of their weights in a merge.
float ParameterShard::share_of(const ChunkState& state) const {
  if (policy_.grace_s()) return state.weight();
  return static_cast<float>(state.taken()) / static_cast<float>(state.wanted());
}

void ParameterShard::update(std::size_t chunk, StepInfo info, bool measured) {
  const ChunkState& state = chunks_[chunk];
  info.loss_scale = share_of(state);
  run({state.begin(), values(chunk), sums_ ? sums_->of(state) : std::exchange(alone_, {})}, info,
      measured, flows_.empty() ? std::vector<std::int64_t>() : std::exchange(flows_[chunk], {}));
}

void ParameterShard::update_all(const StepInfo& info, bool measured) {
  std::vector<std::int64_t> all;
  for (auto& [chunk, flows] : std::exchange(flows_, {}))
    all.insert(all.end(), flows.begin(), flows.end());
  run(with_gradients(), info, measured, std::move(all));
}

void ParameterShard::run(const ParameterRange& range, const StepInfo& info, bool measured,
                         std::vector<std::int64_t> flows) {
  const auto span = timeline_.traced(Server::track, [] { return std::string("optimizer"); },
                                     {.track = Server::track,
                                      .bytes = static_cast<std::int64_t>(range.parameters.bytes()),
                                      .flows = std::move(flows)});
  const Mark begin = device_.mark();
  if (centre_)
    centre_->move(range.parameters, range.gradients);
  else
    optimizer_->update(range, info);
  if (measured) times_.add(begin, device_.mark());
}

/// Chunks that follow each other in the model make one stretch.
std::vector<OwnStretch> ParameterShard::stretches() const {
  std::vector<OwnStretch> out;
  for (const ChunkState& state : chunks_) {
    const std::int64_t begin = state.chunk().begin;
    std::int64_t count = state.chunk().count;
    OwnStretch own{state.begin(), begin, {}};
    if (!out.empty()) {
      const OwnStretch& before = out.back();
      if (before.model + before.parameters.count() == begin) {
        own = before;
        count += before.parameters.count();
        out.pop_back();
      }
    }
    own.parameters = values_.range(own.own, count);
    out.push_back(own);
  }
  return out;
}

void ParameterShard::visit_state(const StateVisitor& visit) {
  const std::vector<OwnStretch> all = stretches();
  if (optimizer_) visit_optimizer(*optimizer_, all, {}, device_, device_, visit);
  if (!centre_) return;
  for (const OwnStretch& one : all)
    visit({.name = std::string(state_parameters),
           .begin = one.model,
           .values = one.parameters,
           .device = &device_});
}

void ParameterShard::restored(std::int64_t skipped) {
  if (!optimizer_) return;
  const ParameterRange all{0, values_, {}};
  optimizer_->restored({&all, 1}, skipped);
}

}  // namespace ringside::ps
