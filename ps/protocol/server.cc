#include "ps/protocol/server.h"

#include <algorithm>

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

}  // namespace

Server::Server(const Model& model, const std::vector<Chunk>& chunks, Device& device,
               const ServerConfig& config)
    : device_(device),
      config_(config),
      rounds_{.asked = std::vector<std::size_t>(static_cast<std::size_t>(config.workers)),
              .settled = std::vector<bool>(static_cast<std::size_t>(config.workers))},
      summands_(static_cast<std::size_t>(config.workers)),
      done_(static_cast<std::size_t>(config.workers)) {
  std::int64_t count = 0;
  for (const Chunk& chunk : chunks) {
    if (chunk.server != config.server) continue;
    slot_at_[chunk.begin] = slots_.size();
    slots_.push_back({chunk,
                      count,
                      Clocks(config.workers, config.pushes),
                      std::vector<Tensor>(static_cast<std::size_t>(config.workers)),
                      0,
                      {},
                      0});
    count += chunk.count;
  }
  if (slots_.empty()) return;
  parameters_ = device.tensor({count}, MemoryKind::parameter, config.dtype);
  sums_ = device.tensor({count}, MemoryKind::gradient, config.dtype);
  if (config.pushes > 1) partial_ = device.tensor({count}, MemoryKind::gradient, config.dtype);
  std::vector<ModelPiece> pieces;
  for (const Slot& slot : slots_) {
    pieces.push_back({slot.begin, slot.chunk.begin, slot.chunk.count});
    const std::int64_t first = model.first_parameter(slot.chunk.unit);
    config.initial_values->write(*model.units[slot.chunk.unit], first, slot.chunk.begin - first,
                                 parameters_.range(slot.begin, slot.chunk.count));
  }
  optimizer_ = make_optimizer(config.optimizer, {config.steps, config.workers}, device, parameters_,
                              parameter_map(model, pieces));
}

Replies Server::handle(int worker, Message message) {
  const Header header = message.header;
  try {
    check_sender(worker, header);
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
      case Kind::sum:
        return sum(worker, header, message.frames);
      case Kind::alive:
        return {};
      case Kind::done:
        done_[static_cast<std::size_t>(worker)] = true;
        return {};
      case Kind::failed:
        if (failure_.empty()) failure_ = fmt::format("worker {} gave up: {}", worker, header.text);
        return {};
      default:
        return handle_other(worker, std::move(message));
    }
  } catch (const Error& error) {
    Message refusal{reply_to(header), {}};
    refusal.header.kind = Kind::error;
    refusal.header.text =
        fmt::format("{} of worker {} refused: {}", name_of(header.kind), worker, error.what());
    Replies replies;
    replies.push_back({worker, std::move(refusal)});
    return replies;
  }
}

bool Server::finished() const {
  return std::all_of(done_.begin(), done_.end(), [](bool done) { return done; });
}

std::int64_t Server::steps() const {
  std::int64_t least = config_.steps;
  for (const Slot& slot : slots_) least = std::min(least, slot.clocks.complete());
  return least;
}

Replies Server::handle_other(int, Message) {
  throw Error("this server does not answer messages of this kind");
}

void Server::check_sender(int worker, const Header& header) const {
  if (header.token != config_.token) throw Error("the message carries the token of another run");
  if (worker < 0 || worker >= config_.workers)
    throw Error("the sender is no worker of this run; workers are 0 to {}", config_.workers - 1);
  if (header.worker != worker) throw Error("the message was signed by worker {}", header.worker);
  if (header.reply) throw Error("the message is a reply, not a request");
  if (done_[static_cast<std::size_t>(worker)])
    throw Error("the worker has already said that it is done, and may send nothing more");
}

void Server::check_frames(int worker, const Header& header,
                          std::span<const FrameShape> frames) const {
  check_sender(worker, header);
  if (frames.size() > 1) throw Error("no message to a server has {} frames", frames.size());
  if (header.kind == Kind::push || header.kind == Kind::push_pull) check_gradient(header, frames);
}

void Server::check_gradient(const Header& header, std::span<const FrameShape> frames) const {
  index_of(header);
  if (frames.size() != 1 || frames[0].dtype != config_.dtype ||
      frames[0].shape.count() != header.count)
    throw Error("the message must have one frame of {} {} elements", header.count,
                name_of(config_.dtype));
}

Server::Slot& Server::slot_of(const Header& header) { return slots_[index_of(header)]; }

std::size_t Server::index_of(const Header& header) const {
  const auto found = slot_at_.find(header.begin);
  if (found == slot_at_.end() || slots_[found->second].chunk.count != header.count)
    throw Error("server {} has no chunk of {} elements that begins at element {}", config_.server,
                header.count, header.begin);
  return found->second;
}

Replies Server::push(int worker, const Header& header, std::vector<Tensor> frames) {
  Slot& slot = slot_of(header);
  std::vector<FrameShape> shapes;
  for (const Tensor& frame : frames) shapes.push_back({frame.dtype(), frame.shape()});
  check_gradient(header, shapes);
  if (const auto done = slot.done / config_.pushes;
      done < header.step && slot.clocks.complete() >= header.step)
    throw Error(
        "the worker pushed step {}, but the server has not finished step {} yet, because no worker "
        "has sent the last totals of the optimizer's sums",
        header.step, done);
  slot.clocks.push(worker, header.step, header.micro_batch);
  slot.waiting[static_cast<std::size_t>(worker)] = std::move(frames[0]);
  if (header.kind == Kind::push_pull)
    slot.readers.push_back({worker, reply_to(header),
                            header.step * config_.pushes + header.micro_batch + 1,
                            header.micro_batch + 1 == config_.pushes});
  return add_in_turn(slot);
}

Replies Server::add_in_turn(Slot& slot) {
  const Tensor total = sums_.range(slot.begin, slot.chunk.count);
  const std::int64_t push = slot.done % config_.pushes;
  const Tensor sum = push == 0 ? total : partial_.range(slot.begin, slot.chunk.count);
  while (slot.next < config_.workers) {
    Tensor& gradient = slot.waiting[static_cast<std::size_t>(slot.next)];
    if (!gradient) return {};
    if (slot.next == 0)
      device_.kernels().copy({.in = gradient, .out = sum});
    else
      device_.kernels().add({.in = gradient, .out = sum});
    gradient = {};
    ++slot.next;
  }
  slot.next = 0;
  if (push > 0) device_.kernels().add({.in = sum, .out = total});
  if (push + 1 == config_.pushes) {
    if (optimizer_->rounds() > 0) {
      ++gathered_;
      return answer_measures();
    }
    update(slot.done / config_.pushes, range_of(slot));
  }
  ++slot.done;
  return answer_readers(slot);
}

ParameterRange Server::range_of(const Slot& slot) const {
  return {slot.begin, parameters_.range(slot.begin, slot.chunk.count),
          sums_.range(slot.begin, slot.chunk.count)};
}

void Server::update(std::int64_t step, const ParameterRange& range) {
  const Mark begin = device_.mark();
  optimizer_->update(range, {step, rounds_.loss_scale});
  if (step < config_.warmup) return;
  updates_.emplace_back(begin, device_.mark());
  add_up_updates(most_updates);
}

void Server::add_up_updates(std::size_t left) {
  for (; updates_.size() > left; updates_.pop_front())
    optimizer_seconds_ += device_.seconds(updates_.front().first, updates_.front().second);
}

double Server::optimizer_seconds() {
  add_up_updates(0);
  return optimizer_seconds_;
}

Replies Server::answer_readers(Slot& slot) {
  Replies replies;
  std::vector<Reader> still_waiting;
  for (Reader& reader : slot.readers) {
    if (slot.done < reader.pushes) {
      still_waiting.push_back(std::move(reader));
      continue;
    }
    std::vector<Tensor> frames;
    if (reader.values) frames.push_back(parameters_.range(slot.begin, slot.chunk.count));
    replies.push_back({reader.worker, {std::move(reader.reply), std::move(frames)}});
  }
  slot.readers = std::move(still_waiting);
  return replies;
}

Replies Server::pull(int worker, const Header& header) {
  Slot& slot = slot_of(header);
  if (const std::int64_t pushed = slot.clocks.pushed(worker);
      header.step < 0 || header.step > pushed)
    throw Error(
        "the worker asked for the values after {} steps, but has pushed {} steps; it may ask for "
        "the values after 0 to {} steps",
        header.step, pushed, pushed);
  slot.readers.push_back({worker, reply_to(header), header.step * config_.pushes, true});
  return answer_readers(slot);
}

Replies Server::sum(int worker, const Header& header, const std::vector<Tensor>& frames) {
  std::optional<std::vector<double>>& own = summands_[static_cast<std::size_t>(worker)];
  if (header.step != sums_done_)
    throw Error("the worker sent values for sum {}, but the next sum is number {}", header.step,
                sums_done_);
  if (own) throw Error("the worker has given its values for sum {} already", header.step);
  if (frames.size() > 1 || (frames.size() == 1 && frames[0].dtype() != DType::f64))
    throw Error("the message must have one frame of fp64 values, or none");
  std::vector<double> values(frames.empty() ? 0 : static_cast<std::size_t>(frames[0].count()));
  for (const auto& other : summands_)
    if (other && other->size() != values.size())
      throw Error("sum {}: the worker gave {} values, another worker gave {}", header.step,
                  values.size(), other->size());
  if (!frames.empty()) device_.read(frames[0], std::as_writable_bytes(std::span(values)));
  own = std::move(values);
  if (std::any_of(summands_.begin(), summands_.end(), [](const auto& s) { return !s; })) return {};
  std::vector<double> total(own->size());
  for (auto& summand : summands_) {
    for (std::size_t i = 0; i < total.size(); ++i) total[i] += (*summand)[i];
    summand.reset();
  }
  ++sums_done_;
  std::vector<Tensor> sums;
  if (!total.empty()) {
    sums.push_back(device_.tensor({static_cast<std::int64_t>(total.size())},
                                  MemoryKind::communication, DType::f64));
    device_.write(sums[0], std::as_bytes(std::span(total)));
  }
  Replies replies;
  for (int to = 0; to < config_.workers; ++to) {
    Message message{reply_to(header), sums};
    message.header.worker = to;
    replies.push_back({to, std::move(message)});
  }
  return replies;
}

}  // namespace ringside::ps
