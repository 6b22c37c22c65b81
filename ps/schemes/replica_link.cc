#include "ps/schemes/replica_link.h"

#include <algorithm>

#include "core/base/error.h"
#include "ps/schemes/connect.h"

namespace ringside::ps {

ReplicaLink::ReplicaLink(const Model& model, Replica& replica, Device& device, Client& client,
                         const RunPlan& plan, std::vector<Chunk> chunks)
    : model_(model),
      replica_(replica),
      device_(device),
      client_(client),
      chunks_(std::move(chunks)),
      rounds_(rounds_of(plan.optimizer, parameter_dtype(plan.train))),
      last_push_(pushes_a_step(plan.train) - 1),
      missing_(model.units.size()) {
  for (int server = 0; server < plan.servers; ++server)
    if (std::any_of(chunks_.begin(), chunks_.end(),
                    [&](const Chunk& chunk) { return chunk.server == server; }))
      servers_.push_back(server);
  std::erase_if(chunks_, [&](const Chunk& chunk) { return !chunk.is_of(client.worker()); });
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
    finite = !overflowed(replica_.gradients().dtype(), round, totals);
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

void ReplicaLink::wait_for(std::size_t unit) {
  client_.wait("values of " + model_.units[unit]->name(), [&] { return missing_[unit] == 0; });
}

void ReplicaLink::visit(const SyncScheme::ParameterVisitor& visit) const {
  for (std::size_t u = 0; u < model_.units.size(); ++u)
    visit(0, *model_.units[u], replica_.parameters(u));
}

Message ReplicaLink::request(Kind kind, const Chunk& chunk, std::int64_t step,
                             std::int64_t micro_batch) const {
  Message message;
  message.header.kind = kind;
  message.header.step = step;
  message.header.micro_batch = micro_batch;
  message.header.begin = chunk.begin;
  message.header.count = chunk.count;
  if (kind != Kind::pull)
    message.frames.push_back(replica_.gradients().range(chunk.begin, chunk.count));
  return message;
}

void ReplicaLink::ask_values(Kind kind, const Chunk& chunk, std::int64_t step) {
  ++missing_[chunk.unit];
  client_.ask(
      chunk.server, request(kind, chunk, step, kind == Kind::pull ? 0 : last_push_),
      fmt::format("{} {}", name_of(kind), model_.units[chunk.unit]->name()),
      [this, chunk](const Message& reply) { take(chunk, reply); }, chunk.begin);
}

void ReplicaLink::take(const Chunk& chunk, const Message& reply) {
  const DType dtype = replica_.parameters().dtype();
  if (reply.frames.size() != 1 || reply.frames[0].dtype() != dtype ||
      reply.frames[0].count() != chunk.count)
    throw Error("server {} sent no {} values of the {} elements from {} on", chunk.server,
                name_of(dtype), chunk.count, chunk.begin);
  device_.kernels().copy(
      {.in = reply.frames[0], .out = replica_.parameters().range(chunk.begin, chunk.count)});
  --missing_[chunk.unit];
  newest_version_ = std::max(newest_version_, reply.header.version);
}

}  // namespace ringside::ps
