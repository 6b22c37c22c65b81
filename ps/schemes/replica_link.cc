#include "ps/schemes/replica_link.h"

#include <algorithm>

#include "core/base/error.h"
#include "core/device/convert.h"
#include "ps/schemes/connect.h"

namespace ringside::ps {

ReplicaLink::ReplicaLink(const Model& model, Replica& replica, const RankContext& context,
                         Client& client, std::vector<Chunk> chunks,
                         const ChunkCompression& compression)
    : model_(model),
      replica_(replica),
      device_(context.device),
      timeline_(context.timeline),
      client_(client),
      workers_(context.plan.world),
      chunks_(std::move(chunks)),
      rounds_(rounds_of(context.plan.optimizer, skips_steps(context.plan.train))),
      skips_(skips_steps(context.plan.train)),
      last_push_(pushes_a_step(context.plan.train) - 1),
      missing_(model.units.size()) {
  const RunPlan& plan = context.plan;
  for (int server = 0; server < plan.servers; ++server)
    if (std::any_of(chunks_.begin(), chunks_.end(),
                    [&](const Chunk& chunk) { return chunk.server == server; }))
      servers_.push_back(server);
  std::erase_if(chunks_, [&](const Chunk& chunk) { return !chunk.is_of(client.worker()); });
  for (const Chunk& chunk : chunks_) {
    const int worker = client.worker();
    if (compresses(compression.pushes))
      pushes_.emplace(chunk.begin, codes_of_pushes(compression, model, chunk.begin, chunk.count,
                                                   device_, worker));
    if (!compresses(compression.pulls)) continue;
    pulls_.emplace(chunk.begin,
                   codes_of_pulls(compression, model, chunk.begin, chunk.count, device_, worker));
    const Tensor own = replica.parameters().range(chunk.begin, chunk.count);
    has_[chunk.begin] = converted(device_, own, DType::f32, MemoryKind::communication);
  }
}

void ReplicaLink::push(std::size_t unit, std::int64_t step) {
  for (const Chunk& chunk : chunks_)
    if (chunk.unit == unit)
      client_.tell(chunk.server, request(Kind::push, chunk, step, last_push_));
}

void ReplicaLink::push_pull(std::size_t unit, std::int64_t step) {
  for (const Chunk& chunk : chunks_)
    if (chunk.unit == unit) ask_values(Kind::push_pull, chunk, step);
}

void ReplicaLink::push_part(std::size_t unit, std::int64_t step, std::int64_t micro_batch) {
  for (const Chunk& chunk : chunks_) {
    if (chunk.unit != unit) continue;
    ++missing_[unit];
    client_.ask(
        chunk.server, request(Kind::push_pull, chunk, step, micro_batch),
        fmt::format("push {}", model_.units[unit]->name()),
        [this, unit](const Message&) { --missing_[unit]; }, chunk.begin);
  }
}

bool ReplicaLink::settle(const StepInfo& info) {
  std::vector<double> totals;
  bool finite = true;
  for (int round = 0; round < rounds_ && finite; ++round) {
    totals = total(info, round, totals);
    finite = !overflowed(skips_, round, totals);
    if (finite && round + 1 < rounds_) continue;
    for (const int server : servers_)
      client_.tell(server, about_sums(Kind::settle, info, round, totals));
  }
  return finite;
}

std::vector<double> ReplicaLink::total(const StepInfo& info, int round,
                                       const std::vector<double>& before) {
  std::vector<std::vector<double>> parts(servers_.size());
  std::size_t missing = parts.size();
  for (std::size_t i = 0; i < parts.size(); ++i)
    client_.ask(servers_[i], about_sums(Kind::measure, info, round, before),
                fmt::format("sums of round {}", round), [&, i](const Message& reply) {
                  if (reply.frames.size() != 1 || reply.frames[0].dtype() != DType::f64)
                    throw Error("server {} sent no sums", servers_[i]);
                  parts[i].resize(static_cast<std::size_t>(reply.frames[0].count()));
                  device_.read(reply.frames[0], std::as_writable_bytes(std::span(parts[i])));
                  --missing;
                });
  client_.wait("sums over the model", [&] { return missing == 0; });
  std::vector<double> total = std::move(parts[0]);
  for (std::size_t p = 1; p < parts.size(); ++p) {
    if (parts[p].size() != total.size())
      throw Error("server {} sent {} sums, but server {} sent {}", servers_[p], parts[p].size(),
                  servers_[0], total.size());
    for (std::size_t i = 0; i < total.size(); ++i) total[i] += parts[p][i];
  }
  return total;
}

Message ReplicaLink::about_sums(Kind kind, const StepInfo& info, int round,
                                const std::vector<double>& totals) {
  Message message;
  message.header.kind = kind;
  message.header.step = info.step;
  message.header.micro_batch = round;
  message.header.scalar = static_cast<double>(info.loss_scale);
  if (!totals.empty()) {
    message.frames.push_back(device_.tensor({static_cast<std::int64_t>(totals.size())},
                                            MemoryKind::communication, DType::f64));
    device_.write(message.frames[0], std::as_bytes(std::span(totals)));
  }
  return message;
}

void ReplicaLink::pull(std::int64_t steps) {
  for (const Chunk& chunk : chunks_) ask_values(Kind::pull, chunk, steps);
}

void ReplicaLink::read_anew(std::int64_t steps) {
  for (const Chunk& chunk : chunks_) {
    ++missing_[chunk.unit];
    client_.ask(
        chunk.server, request(Kind::pull, chunk, steps, 0), "first values",
        [this, chunk](const Message& reply) {
          take_values(chunk, reply);
          const auto has = has_.find(chunk.begin);
          if (has != has_.end())
            device_.kernels().cast(
                {.in = replica_.parameters().range(chunk.begin, chunk.count), .out = has->second});
        },
        chunk.begin);
  }
}

void ReplicaLink::peek() {
  for (const Chunk& chunk : chunks_) ask_values(Kind::peek, chunk, 0);
}

void ReplicaLink::wait_for(std::size_t unit) {
  client_.wait("values of " + model_.units[unit]->name(), [&] { return missing_[unit] == 0; });
}

void ReplicaLink::visit(const SyncScheme::ParameterVisitor& visit) const {
  for (std::size_t u = 0; u < model_.units.size(); ++u)
    visit(0, *model_.units[u], replica_.parameters(u));
}

void ReplicaLink::visit_state(const OwnValues& own, const StateVisitor& visit) {
  const int worker = client_.worker();
  const StateRange mine{.replica = worker};
  if (!pushes_.empty()) {
    // All codes of a worker have been used equally often.
    std::uint32_t codes = pushes_.begin()->second.steps();
    StateRange number = mine;
    number.name = "push_codes";
    number.of_options = true;
    visit_number(device_, number, codes, 1, visit);
    for (auto& [begin, one] : pushes_) {
      one.set_steps(codes);
      StateRange like = mine;
      like.begin = begin;
      one.visit_state(like, visit);
    }
  }
  if (!own.shown) return;
  if (!own.of_all_workers) {
    auto version = static_cast<std::uint32_t>(newest_version_);
    StateRange number = mine;
    number.name = "newest_version";
    number.of_options = true;
    visit_number(device_, number, version, 1, visit);
    newest_version_ = version;
  }
  StateRange like{.name = std::string(state_of_workers),
                  .replica = own.of_all_workers ? -1 : worker,
                  .device = &device_,
                  .holder = own.of_all_workers ? worker : 0,
                  .holders = (own.of_all_workers ? workers_ : 1) + (own.on_servers ? 1 : 0),
                  .begins_as = std::string(state_parameters),
                  .of_options = true};
  for (const Chunk& chunk : chunks_) visit_values(chunk, like, visit);
}

void ReplicaLink::visit_values(const Chunk& chunk, StateRange like, const StateVisitor& visit) {
  const Tensor values = replica_.parameters().range(chunk.begin, chunk.count);
  const auto has = has_.find(chunk.begin);
  like.begin = chunk.begin;
  like.values = has == has_.end() ? converted(device_, values, DType::f32) : has->second;
  visit(like);
  if (values.dtype() != DType::f32) device_.kernels().cast({.in = like.values, .out = values});
}

Message ReplicaLink::request(Kind kind, const Chunk& chunk, std::int64_t step,
                             std::int64_t micro_batch) {
  Message message;
  message.header.kind = kind;
  message.header.step = step;
  message.header.micro_batch = micro_batch;
  message.header.begin = chunk.begin;
  message.header.count = chunk.count;
  if (kind == Kind::pull || kind == Kind::peek) return message;
  Tensor gradients = replica_.gradients().range(chunk.begin, chunk.count);
  if (const auto codes = pushes_.find(chunk.begin); codes != pushes_.end()) {
    const auto span =
        timeline_.scope(Activity::encoding, "encode " + model_.units[chunk.unit]->name());
    gradients = codes->second.encode(gradients);
  }
  message.frames.push_back(std::move(gradients));
  return message;
}

void ReplicaLink::ask_values(Kind kind, const Chunk& chunk, std::int64_t step) {
  ++missing_[chunk.unit];
  client_.ask(
      chunk.server, request(kind, chunk, step, kind == Kind::push_pull ? last_push_ : 0),
      fmt::format("{} {}", name_of(kind), model_.units[chunk.unit]->name()),
      [this, chunk](const Message& reply) { take(chunk, reply); }, chunk.begin);
}

void ReplicaLink::take(const Chunk& chunk, const Message& reply) {
  if (!pulls_codes(reply.header.kind)) return take_values(chunk, reply);
  check_frame(chunk, reply, pulls_.at(chunk.begin).form());
  take_code(chunk, reply.frames[0], replica_.parameters().range(chunk.begin, chunk.count));
  note_taken(chunk, reply);
}

void ReplicaLink::take_values(const Chunk& chunk, const Message& reply) {
  const Tensor values = replica_.parameters().range(chunk.begin, chunk.count);
  check_frame(chunk, reply, {values.dtype(), values.shape()});
  device_.kernels().copy({.in = reply.frames[0], .out = values});
  note_taken(chunk, reply);
}

void ReplicaLink::check_frame(const Chunk& chunk, const Message& reply, const FrameShape& frame) {
  if (reply.frames.size() != 1 || reply.frames[0].dtype() != frame.dtype ||
      reply.frames[0].count() != frame.shape.count())
    throw Error("server {} sent no {} values of the {} elements from {} on", chunk.server,
                name_of(frame.dtype), chunk.count, chunk.begin);
}

void ReplicaLink::note_taken(const Chunk& chunk, const Message& reply) {
  --missing_[chunk.unit];
  newest_version_ = std::max(newest_version_, reply.header.version);
}

void ReplicaLink::take_code(const Chunk& chunk, const Tensor& code, const Tensor& values) {
  const auto span =
      timeline_.scope(Activity::encoding, "decode " + model_.units[chunk.unit]->name());
  const Tensor& has = has_.at(chunk.begin);
  add_decoded(device_, pulls_.at(chunk.begin), code, has);
  if (values.dtype() != DType::f32) device_.kernels().cast({.in = has, .out = values});
}

}  // namespace ringside::ps
