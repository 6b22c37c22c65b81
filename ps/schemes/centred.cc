#include "ps/schemes/centred.h"

#include <utility>

#include "core/base/error.h"
#include "core/plan/worlds.h"
#include "core/scheme/rank_context.h"
#include "ps/schemes/connect.h"

namespace ringside::ps {

Tensor Centred::of_unit(std::size_t unit, const Tensor& parameters) const {
  return parameters.range(model().first_parameter(unit), model().units[unit]->layout().count());
}

void Centred::bind(std::size_t unit, const Tensor& parameters) {
  model().units[unit]->bind(of_unit(unit, parameters), {});
}

void Centred::visit(const Tensor& parameters, const ParameterVisitor& visitor) {
  for (std::size_t u = 0; u < model().units.size(); ++u)
    visitor(0, *model().units[u], of_unit(u, parameters));
}

Tensor Centred::parameters_like_replicas(MemoryKind kind) const {
  return context().device.tensor({model().parameter_count()}, kind,
                                 parameter_dtype(context().plan.train));
}

Tensor Centred::initial_centre(MemoryKind kind) const {
  const Tensor centre = context().device.tensor({model().parameter_count()}, kind);
  const auto initial = initial_values(context());
  for (std::size_t u = 0; u < model().units.size(); ++u)
    initial->write(*model().units[u], model().first_parameter(u), 0, of_unit(u, centre));
  return centre;
}

void Centred::set_values(int replica, std::int64_t begin, const Tensor& values) const {
  kernels().copy({.in = values, .out = this->values(replica).range(begin, values.count())});
  round_parameters(replica, begin, values.count());
}

void Centred::make_difference(const Tensor& from, const Tensor& values, float scale,
                              const Tensor& out) const {
  kernels().blend({.in = from, .out = out, .in_scale = scale});
  kernels().blend({.in = values, .out = out, .in_scale = -scale, .out_scale = 1});
}

CentredWorker::CentredWorker(const RankContext& context, TransportOptions options)
    : Centred(context, 1),
      options_(std::move(options)),
      transport_(context.links.transport<Transport>()) {}

void CentredWorker::attach(Model& model) {
  Centred::attach(model);
  chunks_ = make_chunks(model);
  missing_.resize(model.units.size());
  client_ = connect(context(), *transport_, options_);
  if (process_in_seat(context().plan) > 0) return join();
  client_->sum({});  // workers begin together
}

void CentredWorker::join() {
  begun_ = client_->join();
  if (!begun_) return;
  for (const Chunk& chunk : chunks_)
    ask(chunk, about(Kind::pull, chunk, 0), {},
        [this](const Chunk& of, const Tensor& values) { set_values(0, of.begin, values); });
  client_->drain();
}

void CentredWorker::before_forward(std::size_t unit, const Pass& pass) {
  wait_for(unit);
  if (pass.training) return Centred::before_forward(unit, pass);
  if (!std::exchange(centre_is_new_, true)) read_for_evaluation(pass);
  bind(unit, centre_);
}

void CentredWorker::after_backward(std::size_t unit, const Pass& pass) {
  Centred::after_backward(unit, pass);
  client_->progress();
}

void CentredWorker::synchronise(const StepInfo& info) {
  forget_centre();
  exchange(info);
}

void CentredWorker::visit_parameters(const ParameterVisitor& visitor) {
  if (!std::exchange(finished_, true)) {
    client_->finish();
    if (client_->worker() == 0) read_centre(Kind::peek, 0);
  }
  if (client_->worker() == 0) show_centre(visitor);
}

Message CentredWorker::about(Kind kind, const Chunk& chunk, std::int64_t step) {
  Message message;
  message.header.kind = kind;
  message.header.step = step;
  message.header.begin = chunk.begin;
  message.header.count = chunk.count;
  return message;
}

void CentredWorker::ask(const Chunk& chunk, Message request, const Tensor& frame, Take take) {
  if (frame) request.frames.push_back(frame);
  ++missing_[chunk.unit];
  std::string what =
      fmt::format("{} {}", name_of(request.header.kind), model().units[chunk.unit]->name());
  client_->ask(
      chunk.server, std::move(request), std::move(what),
      [this, chunk, take = std::move(take)](const Message& reply) {
        if (reply.frames.size() != 1 || reply.frames[0].dtype() != DType::f32 ||
            reply.frames[0].count() != chunk.count)
          throw Error("server {} sent no fp32 values of the {} elements from {} on", chunk.server,
                      chunk.count, chunk.begin);
        take(chunk, reply.frames[0]);
        --missing_[chunk.unit];
      },
      chunk.begin);
}

void CentredWorker::read_centre(Kind kind, std::int64_t steps) {
  if (!centre_) centre_ = parameters_like_replicas(MemoryKind::parameter);
  for (const Chunk& chunk : chunks_)
    ask(chunk, about(kind, chunk, steps), {}, [this](const Chunk& of, const Tensor& values) {
      kernels().cast({.in = values, .out = centre_.range(of.begin, of.count)});
    });
  client_->drain();
}

void CentredWorker::wait_for(std::size_t unit) {
  client_->wait("the servers' part of " + model().units[unit]->name(),
                [&] { return missing_[unit] == 0; });
}

void DifferenceWorker::attach(Model& model) {
  CentredWorker::attach(model);
  begun_ = initial_centre(MemoryKind::optimizer);
  given_ = context().device.tensor(begun_.shape(), MemoryKind::communication);
  set_values(0, 0, begun_);
}

void DifferenceWorker::visit_state(const StateVisitor& visit) {
  CentredWorker::visit_state(visit);
  visit({.name = "begun_parameters",
         .replica = client().worker(),
         .values = begun_,
         .device = &context().device,
         .begins_as = std::string(state_parameters)});
}

void DifferenceWorker::push(Kind kind, std::int64_t step, float scale, double weight) {
  {
    const auto span = context().timeline.scope(Activity::encoding, "difference");
    make_difference(begun_, values(0), scale, given_);
  }
  for (const Chunk& chunk : chunks()) {
    Message request = about(kind, chunk, step);
    request.header.scalar = weight;
    const Tensor frame = given_.range(chunk.begin, chunk.count);
    if (kind == Kind::push) {
      request.frames.push_back(frame);
      client().tell(chunk.server, std::move(request));
    } else {
      ask(chunk, std::move(request), frame,
          [this](const Chunk& of, const Tensor& values) { go_on_from(of, values); });
    }
  }
}

void DifferenceWorker::pull(std::int64_t steps) {
  for (const Chunk& chunk : chunks())
    ask(chunk, about(Kind::pull, chunk, steps), {},
        [this](const Chunk& of, const Tensor& values) { go_on_from(of, values); });
}

void DifferenceWorker::go_on_from(const Chunk& chunk, const Tensor& values) {
  const auto span = context().timeline.scope(Activity::encoding, "go on from values read");
  kernels().copy({.in = values, .out = begun_.range(chunk.begin, chunk.count)});
  set_values(0, chunk.begin, values);
}

}  // namespace ringside::ps
