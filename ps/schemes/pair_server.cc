#include "ps/schemes/pair_server.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "core/base/error.h"

namespace ringside::ps {
namespace {

/// The most bytes of text of a server's history.
constexpr std::size_t most_history_bytes = std::size_t{1} << 26;

}  // namespace

PairServer::PairServer(const Model& model, Device& device, const ServerConfig& config, int owner)
    : Server(device, config.server, config.workers, config.token),
      owner_(owner),
      replica_(device.tensor({model.parameter_count()}, MemoryKind::parameter)),
      history_{0, model.parameter_count(), {}, false},
      finishers_(config.workers) {
  for (std::size_t u = 0; u < model.units.size(); ++u) {
    const std::int64_t first = model.first_parameter(u);
    const std::int64_t count = model.units[u]->layout().count();
    const Tensor initial = device.tensor({count}, MemoryKind::workspace, config.dtype);
    config.initial_values->write(*model.units[u], first, 0, initial);
    device.kernels().cast({.in = initial, .out = replica_.range(first, count)});
  }
}

void PairServer::check_request(const Header& header, std::span<const FrameShape> frames) const {
  if (header.kind != Kind::push_pull) return;
  if (frames.size() != 1 || frames[0].dtype != DType::f32 ||
      frames[0].shape.count() != replica_.count())
    throw Error("the message must have one frame of the {} fp32 elements of the model",
                replica_.count());
}

Replies PairServer::answer(int worker, Message message) {
  const Header& header = message.header;
  if (header.kind == Kind::finish) {
    finishers_.take(worker, header);
    return finishers_.answer(seats());
  }
  if (header.kind != Kind::push_pull && header.kind != Kind::pull)
    return Server::answer(worker, std::move(message));
  if (header.kind == Kind::push_pull) {
    std::vector<FrameShape> shapes;
    for (const Tensor& frame : message.frames) shapes.push_back({frame.dtype(), frame.shape()});
    check_request(header, shapes);
    history_.add({RangeEvent::Kind::accepted, worker}, most_history_bytes);
    if (worker == owner_) {
      device().kernels().add({.in = message.frames[0], .out = replica_});
      ++steps_;
    } else {
      average(message.frames[0]);
    }
  }
  return one_reply(worker, with_replica(header));
}

void PairServer::average(const Tensor& other) {
  device().kernels().blend({.in = other, .out = replica_, .in_scale = 0.5F, .out_scale = 0.5F});
}

/// The reply has a copy: the replica may change before the worker has it.
Message PairServer::with_replica(const Header& request) {
  const Tensor copy = device().tensor(replica_.shape(), MemoryKind::communication);
  device().kernels().copy({.in = replica_, .out = copy});
  return {reply_to(request), {copy}};
}

/// Others may have averaged since the owner read it.
void PairServer::visit_state(const StateVisitor& visit) {
  visit({.name = "server_replica",
         .replica = owner_,
         .values = replica_,
         .device = &device(),
         .begins_as = std::string(state_parameters)});
}

void PairServer::restored(std::int64_t steps, std::int64_t) {
  steps_ = steps;
  history_.cut = true;
}

nlohmann::ordered_json PairServer::course() const {
  return {{"events", history_.events}, {"cut", history_.cut}};
}

void PairServer::restore_course(const nlohmann::json& course) {
  history_.events = course.at("events").get<std::string>();
  history_.cut = course.at("cut").get<bool>();
}

void PairServer::report(RankRecord& record) { record.history.push_back(history_); }

}  // namespace ringside::ps
