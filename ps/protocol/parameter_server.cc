#include "ps/protocol/parameter_server.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "core/base/error.h"

namespace ringside::ps {
namespace {

/// The most bytes of text that a server keeps as the history of its ranges.
constexpr std::size_t most_history_bytes = std::size_t{1} << 26;

/// The state of the server's chunks, of those of the model.
std::vector<ChunkState> own_chunks(const std::vector<Chunk>& chunks, const ServerConfig& config,
                                   const Policy& policy, Merges& merges, double now) {
  const auto own =
      static_cast<std::size_t>(std::ranges::count(chunks, config.server, &Chunk::server));
  const std::size_t history_bytes = policy.values_rest() || own == 0 ? 0 : most_history_bytes / own;
  std::vector<ChunkState> states;
  std::int64_t begin = 0;
  for (const Chunk& chunk : chunks) {
    if (chunk.server != config.server) continue;
    states.emplace_back(chunk, begin, config.workers, config.pushes, policy, merges, history_bytes,
                        now);
    begin += chunk.count;
  }
  return states;
}

}  // namespace

ParameterServer::ParameterServer(const Model& model, const std::vector<Chunk>& chunks,
                                 Device& device, const ServerConfig& config)
    : Server(device, config.server, config.workers, config.token),
      config_(config),
      policy_(config.policy ? config.policy : make_policy(config.rules, config.workers)),
      codes_(device, config_, policy_->values_rest()),
      merges_(config.workers),
      chunks_(own_chunks(chunks, config, *policy_, merges_, device.clock().now())),
      shard_(model, chunks_, config_, *policy_, device, timeline()),
      copies_(chunks_.size()),
      budget_(config.steps, config.workers, {config.period, config.by_speed}),
      finishers_(config.workers) {
  for (std::size_t index = 0; index < chunks_.size(); ++index) {
    chunk_at_[chunks_[index].chunk().begin] = index;
    codes_.add(model, chunks_[index].chunk(), shard_.values(index));
  }
  if (policy_->shares_steps()) meetings().set_period(config.period);
  tells_merges_ =
      std::ranges::any_of(chunks_, &ChunkState::decides_merges) && chunks_.size() < chunks.size();
  Optimizer* const optimizer = shard_.optimizer();
  if (!optimizer) return;
  if (config.delay_compensation != 0 && !config.make_optimizer) {
    std::vector<Tensor> values;
    for (std::size_t index = 0; index < chunks_.size(); ++index) values.push_back(values_of(index));
    compensation_.emplace(device, config.workers, config.delay_compensation, values);
  }
  if (optimizer->rounds() > 0)
    rounds_.emplace(*optimizer, device,
                    OptimizerRounds::Of{.workers = config.workers,
                                        .chunks = chunks_.size(),
                                        .all_push_all = chunks_.front().chunk().group == 1,
                                        .skips = config_.skips_steps()});
}

Replies ParameterServer::answer(int worker, Message message) {
  const Header header = message.header;
  switch (header.kind) {
    case Kind::push:
    case Kind::push_pull:
      return push(worker, header, std::move(message.frames));
    case Kind::pull:
    case Kind::peek:
      return pull(worker, header);
    case Kind::measure:
      rounds().measure(worker, header, message.frames);
      return rounds_->answer(shard_.with_gradients());
    case Kind::settle:
      return settle(worker, header, message.frames);
    case Kind::ticket:
      return ticket(worker, header);
    case Kind::merge:
      return merge(header);
    case Kind::finish:
      return finish(worker, header);
    default:
      return Server::answer(worker, std::move(message));
  }
}

std::int64_t ParameterServer::steps() const {
  std::int64_t least = config_.steps;
  for (const ChunkState& state : chunks_) least = std::min(least, state.clocks().complete());
  return least;
}

std::size_t ParameterServer::index_of(const Header& header) const {
  const auto found = chunk_at_.find(header.begin);
  if (found == chunk_at_.end() || chunks_[found->second].chunk().count != header.count)
    throw Error("server {} has no chunk of {} elements that begins at element {}", server(),
                header.count, header.begin);
  if (const Chunk& chunk = chunks_[found->second].chunk(); !chunk.is_of(header.worker))
    throw Error(
        "the {} elements from {} on are pushed and pulled by worker {} of every {} alone, counted "
        "from 0",
        header.count, header.begin, chunk.member, chunk.group);
  return found->second;
}

void ParameterServer::check_request(const Header& header,
                                    std::span<const FrameShape> frames) const {
  if (header.kind != Kind::push && header.kind != Kind::push_pull) return;
  const std::size_t index = index_of(header);
  // No update waits for gradients that a worker skips. So one number that is too large would make
  // the server skip all updates up to it.
  if (const std::int64_t all = policy_->shares_steps() ? config_.steps * workers() : config_.steps;
      policy_->may_skip() && header.step >= all)
    throw Error("step {} was pushed, but the run has {} steps, numbered from 0", header.step, all);
  if (policy_->grace_s() && !(std::isfinite(header.scalar) && header.scalar > 0))
    throw Error("the weight of the push is {}; it must be finite and above 0", header.scalar);
  const FrameShape frame =
      codes_.of_pushes() ? codes_.form(index) : FrameShape{config_.dtype, {header.count}};
  if (frames.size() != 1 || frames[0].dtype != frame.dtype ||
      frames[0].shape.count() != frame.shape.count())
    throw Error("the message must have one frame of {} {} elements", frame.shape.count(),
                name_of(frame.dtype));
}

Replies ParameterServer::push(int worker, const Header& header, std::vector<Tensor> frames) {
  const std::size_t index = index_of(header);
  ChunkState& state = chunks_[index];
  std::vector<FrameShape> shapes;
  for (const Tensor& frame : frames) shapes.push_back({frame.dtype(), frame.shape()});
  check_request(header, shapes);
  if (finishers_.has(worker)) throw Error("the worker has already said that it pushes no more");
  if (const std::int64_t done = state.version() / config_.pushes;
      rounds_ && done < header.step && state.clocks().complete() >= header.step)
    throw Error(
        "the worker pushed step {}, but the server has not finished step {} yet, because no worker "
        "has sent the last totals of the optimizer's sums",
        header.step, done);
  if (codes_.of_pushes()) frames[0] = codes_.pushed(index, frames[0]);
  state.push(worker, header.step, header.micro_batch, std::move(frames[0]),
             policy_->grace_s() ? static_cast<float>(header.scalar) : 1);
  if (header.kind == Kind::push_pull)
    state.add_reader({worker, reply_to(header), state.clocks().next(worker),
                      header.micro_batch + 1 == config_.pushes});
  const std::int64_t number = state.clocks().next(worker) - 1;
  Replies replies = advance(index);
  append(replies, skip(worker, number));
  // A worker that may go on before its gradient is added up will overwrite it.
  if (!policy_->gradients_rest())
    state.keep_waiting([this](const Tensor& values) { return copy_of(values); });
  return replies;
}

Tensor ParameterServer::copy_of(const Tensor& values) const {
  Tensor copy = device().tensor(values.shape(), MemoryKind::communication, values.dtype());
  device().kernels().copy({.in = values, .out = copy});
  return copy;
}

Replies ParameterServer::advance(std::size_t index) {
  ChunkState& state = chunks_[index];
  const std::int64_t merges = merges_.count();
  Replies replies;
  double factor = 1;      // on the learning rate of an update with one gradient
  bool measured = false;  // whether that is of a measured step
  for (;;) {
    while (const auto gradient = state.next_gradient(device().clock().now())) {
      measured = gradient->step >= config_.warmup;
      const std::int64_t stale = gradient->update - gradient->read_version;
      if (measured && !policy_->values_rest())
        staleness_.add(stale, device().clock().now() - gradient->read_at);
      if (!shard_.adds_up()) factor = lr_factor(config_.staleness_lr, stale);
      shard_.apply(index, *gradient, compensation_ ? &*compensation_ : nullptr);
    }
    if (!state.complete()) break;
    const bool last = (state.version() + 1) % config_.pushes == 0;
    if (last && rounds_) {
      rounds_->gather();
      append(replies, rounds_->answer(shard_.with_gradients()));
      break;
    }
    if (last && state.taken() > 0) {
      const std::int64_t step = state.version() / config_.pushes;
      shard_.update(index, {.step = step, .lr_factor = factor},
                    shard_.adds_up() ? step >= config_.warmup : measured);
    }
    state.updated();
  }
  // Readers are answered after all updates. The loss of a worker can allow several updates at once;
  // the history records only their cause, so there must be no read between two of them.
  append(replies, answer_readers(index));
  shard_.forget_difference();
  if (merges_.count() > merges) append(replies, advance_all());
  return replies;
}

Replies ParameterServer::advance_all() {
  Replies replies;
  for (std::size_t index = 0; index < chunks_.size(); ++index) append(replies, advance(index));
  return replies;
}

OptimizerRounds& ParameterServer::rounds() {
  if (!rounds_) throw Error("this server's optimizer needs no sums over the model");
  return *rounds_;
}

Replies ParameterServer::settle(int worker, const Header& header,
                                const std::vector<Tensor>& frames) {
  const std::optional<bool> finite = rounds().settle(worker, header, frames);
  return finite ? end_rounds(*finite) : rounds_->answer(shard_.with_gradients());
}

Replies ParameterServer::end_rounds(bool finite) {
  const StepInfo step = rounds_->step();
  if (finite)
    shard_.update_all(step, step.step >= config_.warmup);
  else
    shard_.skip();
  rounds_->end_step();
  Replies replies;
  for (std::size_t index = 0; index < chunks_.size(); ++index) {
    chunks_[index].updated();
    append(replies, answer_readers(index));
  }
  return replies;
}

void ParameterServer::report(RankRecord& record) {
  // A run that was stopped has done fewer steps.
  const std::int64_t done = policy_->values_rest() ? steps() : config_.steps;
  const auto measured = static_cast<double>(std::max<std::int64_t>(1, done - config_.warmup));
  record.serving_optimizer_ms = 1e3 * optimizer_seconds() / measured;
  if (policy_->values_rest()) return;
  for (const ChunkState& state : chunks_) {
    staleness_.dropped += state.dropped();
    record.history.push_back(state.history());
  }
  record.staleness = std::move(staleness_);
}

}  // namespace ringside::ps
