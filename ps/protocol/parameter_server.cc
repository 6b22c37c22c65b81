#include "ps/protocol/parameter_server.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "core/base/error.h"
#include "core/optim/optimizers.h"
#include "core/scheme/parameter_map.h"

namespace ringside::ps {
namespace {

/// The most updates whose marks (of begin and end) are kept; beyond that, the times of the oldest
/// are read. On a device with a queue the time of a mark is known only after a while, and reading
/// the time earlier would block. One step of a model of a few hundred megabytes has fewer updates
/// than this.
constexpr std::size_t most_updates = 1024;

/// The most text that a server keeps of what happened to its ranges.
constexpr std::size_t most_history_bytes = std::size_t{1} << 26;

void append(Replies& replies, Replies more) {
  replies.insert(replies.end(), std::make_move_iterator(more.begin()),
                 std::make_move_iterator(more.end()));
}

}  // namespace

UpdateRules update_rules(const OptimizerConfig& optimizer, const ConsistencyRules& rules,
                         std::int64_t steps, int workers) {
  if (rules.consistency != Consistency::asp) return {optimizer, steps};
  UpdateRules out{optimizer, steps * workers};
  out.optimizer.warmup_steps *= workers;
  out.optimizer.step_every *= workers;
  return out;
}

ParameterServer::ParameterServer(const Model& model, const std::vector<Chunk>& chunks,
                                 Device& device, const ServerConfig& config)
    : Server(device, config.server, config.workers, config.token),
      config_(config),
      policy_(make_policy(config.rules, config.workers)),
      rounds_{.asked = std::vector<std::size_t>(static_cast<std::size_t>(config.workers)),
              .settled = std::vector<bool>(static_cast<std::size_t>(config.workers))},
      tickets_(config.steps * config.workers),
      given_(static_cast<std::size_t>(config.workers)),
      finishers_(static_cast<std::size_t>(config.workers)) {
  const auto own = static_cast<std::size_t>(std::count_if(
      chunks.begin(), chunks.end(), [&](const Chunk& one) { return one.server == config.server; }));
  const std::size_t history_bytes =
      policy_->values_rest() || own == 0 ? 0 : most_history_bytes / own;
  std::int64_t count = 0;
  for (const Chunk& chunk : chunks) {
    if (chunk.server != config.server) continue;
    range_at_[chunk.begin] = ranges_.size();
    ranges_.emplace_back(chunk, count, config.workers, config.pushes, *policy_, history_bytes);
    count += chunk.count;
  }
  copies_.resize(ranges_.size());
  if (ranges_.empty()) return;
  parameters_ = device.tensor({count}, MemoryKind::parameter, config.dtype);
  if (policy_->gradients(config.workers) > 1 || config.pushes > 1 ||
      rounds_of(config.optimizer, config.dtype) > 0)
    sums_ = device.tensor({count}, MemoryKind::gradient, config.dtype);
  if (config.pushes > 1) partial_ = device.tensor({count}, MemoryKind::gradient, config.dtype);
  std::vector<ModelPiece> pieces;
  for (const Range& range : ranges_) {
    const Chunk& chunk = range.chunk();
    pieces.push_back({range.begin(), chunk.begin, chunk.count});
    const std::int64_t first = model.first_parameter(chunk.unit);
    config.initial_values->write(*model.units[chunk.unit], first, chunk.begin - first,
                                 parameters_.range(range.begin(), chunk.count));
  }
  const UpdateRules rules =
      update_rules(config.optimizer, config.rules, config.steps, config.workers);
  optimizer_ = make_optimizer(rules.optimizer, {rules.updates, config.workers}, device, parameters_,
                              parameter_map(model, pieces));
}

Replies ParameterServer::answer(int worker, Message message) {
  const Header header = message.header;
  switch (header.kind) {
    case Kind::push:
    case Kind::push_pull:
      return push(worker, header, std::move(message.frames));
    case Kind::pull:
      return pull(worker, header);
    case Kind::measure:
      return measure(worker, header, message.frames);
    case Kind::settle:
      return settle(worker, header, message.frames);
    case Kind::ticket:
      return ticket(worker, header);
    case Kind::finish:
      return finish(worker, header);
    default:
      return Server::answer(worker, std::move(message));
  }
}

std::int64_t ParameterServer::steps() const {
  std::int64_t least = config_.steps;
  for (const Range& range : ranges_) least = std::min(least, range.clocks().complete());
  return least;
}

std::size_t ParameterServer::index_of(const Header& header) const {
  const auto found = range_at_.find(header.begin);
  if (found == range_at_.end() || ranges_[found->second].chunk().count != header.count)
    throw Error("server {} has no chunk of {} elements that begins at element {}", server(),
                header.count, header.begin);
  return found->second;
}

void ParameterServer::check_request(const Header& header,
                                    std::span<const FrameShape> frames) const {
  if (header.kind != Kind::push && header.kind != Kind::push_pull) return;
  index_of(header);
  if (frames.size() != 1 || frames[0].dtype != config_.dtype ||
      frames[0].shape.count() != header.count)
    throw Error("the message must have one frame of {} {} elements", header.count,
                name_of(config_.dtype));
}

Replies ParameterServer::push(int worker, const Header& header, std::vector<Tensor> frames) {
  const std::size_t index = index_of(header);
  Range& range = ranges_[index];
  std::vector<FrameShape> shapes;
  for (const Tensor& frame : frames) shapes.push_back({frame.dtype(), frame.shape()});
  check_request(header, shapes);
  if (finishers_[static_cast<std::size_t>(worker)])
    throw Error("the worker has already said that it pushes no more");
  if (const std::int64_t done = range.version() / config_.pushes;
      optimizer_->rounds() > 0 && done < header.step && range.clocks().complete() >= header.step)
    throw Error(
        "the worker pushed step {}, but the server has not finished step {} yet, because no worker "
        "has sent the last totals of the optimizer's sums",
        header.step, done);
  range.push(worker, header.step, header.micro_batch, std::move(frames[0]));
  if (header.kind == Kind::push_pull)
    range.add_reader({worker, reply_to(header), range.clocks().next(worker),
                      header.micro_batch + 1 == config_.pushes});
  Replies replies = advance(index);
  // A worker that may go on before its gradient is added up will overwrite it.
  if (!policy_->gradients_rest())
    range.keep_waiting([this](const Tensor& values) { return copy_of(values); });
  return replies;
}

Tensor ParameterServer::copy_of(const Tensor& values) const {
  Tensor copy = device().tensor(values.shape(), MemoryKind::communication, values.dtype());
  device().kernels().copy({.in = values, .out = copy});
  return copy;
}

Replies ParameterServer::advance(std::size_t index) {
  Range& range = ranges_[index];
  Replies replies;
  Tensor alone;  // the gradient, if the update has only one
  double factor = 1;
  for (;;) {
    while (const auto gradient = range.next_gradient()) {
      const bool measured = gradient->step >= config_.warmup;
      const std::int64_t stale = gradient->update - gradient->read_version;
      if (measured && !policy_->values_rest())
        staleness_.add(stale, device().clock().now() - gradient->read_at);
      if (sums_) {
        add(range, *gradient);
      } else {
        alone = gradient->values;
        factor = lr_factor(config_.staleness_lr, stale);
      }
    }
    if (!range.complete()) break;
    const bool last = (range.version() + 1) % config_.pushes == 0;
    if (last && optimizer_->rounds() > 0) {
      ++gathered_;
      append(replies, answer_measures());
      break;
    }
    if (last) {
      ParameterRange all = parameters_of(range);
      if (alone) all.gradients = alone;
      const std::int64_t step = range.version() / config_.pushes;
      const std::int64_t a_step =
          config_.rules.consistency == Consistency::asp ? config_.workers : 1;  // updates
      update(all, {.step = step, .loss_scale = rounds_.loss_scale, .lr_factor = factor},
             step >= config_.warmup * a_step);
      alone = {};
    }
    range.updated();
    append(replies, answer_readers(index));
  }
  append(replies, answer_readers(index));
  return replies;
}

void ParameterServer::add(const Range& range, const Range::Gradient& gradient) {
  const Tensor total = sums_.range(range.begin(), range.chunk().count);
  const bool first_push = gradient.update % config_.pushes == 0;
  const Tensor sum = first_push ? total : partial_.range(range.begin(), range.chunk().count);
  const Kernels& kernels = device().kernels();
  if (gradient.first)
    kernels.copy({.in = gradient.values, .out = sum});
  else
    kernels.add({.in = gradient.values, .out = sum});
  if (range.complete() && !first_push) kernels.add({.in = sum, .out = total});
}

ParameterRange ParameterServer::parameters_of(const Range& range) const {
  const std::int64_t count = range.chunk().count;
  return {range.begin(), parameters_.range(range.begin(), count),
          sums_ ? sums_.range(range.begin(), count) : Tensor{}};
}

void ParameterServer::update(const ParameterRange& range, const StepInfo& info, bool measured) {
  const Mark begin = device().mark();
  optimizer_->update(range, info);
  if (!measured) return;
  updates_.emplace_back(begin, device().mark());
  add_up_updates(most_updates);
}

void ParameterServer::add_up_updates(std::size_t left) {
  for (; updates_.size() > left; updates_.pop_front())
    optimizer_seconds_ += device().seconds(updates_.front().first, updates_.front().second);
}

double ParameterServer::optimizer_seconds() {
  add_up_updates(0);
  return optimizer_seconds_;
}

/// Values that may change before the worker has them are copied, once for each version.
Tensor ParameterServer::values_of(std::size_t index) {
  const Range& range = ranges_[index];
  const Tensor now = parameters_.range(range.begin(), range.chunk().count);
  if (policy_->values_rest()) return now;
  Values& copy = copies_[index];
  if (copy.version != range.version()) copy = {copy_of(now), range.version()};
  return copy.tensor;
}

Replies ParameterServer::answer_readers(std::size_t index) {
  Replies replies;
  for (Range::Reader& reader : ranges_[index].served(device().clock().now())) {
    std::vector<Tensor> frames;
    if (reader.values) frames.push_back(values_of(index));
    reader.reply.version = ranges_[index].version();
    replies.push_back({reader.worker, {std::move(reader.reply), std::move(frames)}});
  }
  return replies;
}

Replies ParameterServer::pull(int worker, const Header& header) {
  const std::size_t index = index_of(header);
  Range& range = ranges_[index];
  if (const std::int64_t pushed = range.clocks().next(worker) / config_.pushes;
      header.step < 0 || header.step > pushed)
    throw Error(
        "the worker asked for the values after {} steps, but has pushed {} steps; it may ask for "
        "the values after 0 to {} steps",
        header.step, pushed, pushed);
  range.add_reader({worker, reply_to(header), header.step * config_.pushes, true});
  return answer_readers(index);
}

Replies ParameterServer::ticket(int worker, const Header& header) {
  if (config_.rules.consistency != Consistency::asp || server() != 0)
    throw Error("this server gives no tickets; server 0 does, with consistency asp");
  Message reply{reply_to(header), {}};
  reply.header.scalar = tickets_ > 0 ? 1 : 0;
  if (tickets_ > 0) {
    --tickets_;
    ++given_[static_cast<std::size_t>(worker)];
  }
  Replies replies;
  replies.push_back({worker, std::move(reply)});
  return replies;
}

Replies ParameterServer::finish(int worker, const Header& header) {
  std::optional<Header>& request = finishers_[static_cast<std::size_t>(worker)];
  if (request) throw Error("the worker has already said that it pushes no more");
  request = header;
  return answer_finishers();
}

Replies ParameterServer::answer_finishers() {
  for (std::size_t w = 0; w < finishers_.size(); ++w)
    if (!finishers_[w] && !is_lost(static_cast<int>(w))) return {};
  if (std::exchange(all_finished_, true)) return {};
  Replies replies;
  for (std::size_t w = 0; w < finishers_.size(); ++w)
    if (finishers_[w] && !is_lost(static_cast<int>(w)))
      replies.push_back({static_cast<int>(w), {reply_to(*finishers_[w]), {}}});
  return replies;
}

std::vector<int> ParameterServer::patient() const {
  std::vector<int> workers;
  for (std::size_t w = 0; w < finishers_.size(); ++w)
    if (finishers_[w] && !is_done(static_cast<int>(w))) workers.push_back(static_cast<int>(w));
  return workers;
}

Replies ParameterServer::lose(int worker) {
  int left = -1;  // workers that stay
  for (int w = 0; w < workers(); ++w) left += is_lost(w) ? 0 : 1;
  const bool waits_for_all = policy_->values_rest();
  const bool enough = policy_->may_skip() ? left >= policy_->gradients(config_.workers) : left > 0;
  if (waits_for_all || !enough) return Server::lose(worker);
  // Steps that the worker had a ticket for, and whose gradients nobody has, are given to others.
  if (!ranges_.empty())
    tickets_ += given_[static_cast<std::size_t>(worker)] - ranges_[0].clocks().next(worker);
  Replies replies = count_as_lost(worker);
  for (std::size_t index = 0; index < ranges_.size(); ++index) {
    ranges_[index].lose(worker);
    append(replies, advance(index));
  }
  append(replies, answer_finishers());
  return replies;
}

void ParameterServer::report(RankRecord& record) {
  const auto measured =
      static_cast<double>(std::max<std::int64_t>(1, config_.steps - config_.warmup));
  record.serving_optimizer_ms = 1e3 * optimizer_seconds() / measured;
  if (policy_->values_rest()) return;
  for (const Range& range : ranges_) {
    staleness_.dropped += range.dropped();
    record.history.push_back(range.history());
  }
  record.staleness = std::move(staleness_);
}

}  // namespace ringside::ps
