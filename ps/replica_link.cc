#include "ps/replica_link.h"

#include "core/base/error.h"

namespace ringside::ps {

ReplicaLink::ReplicaLink(const Model& model, Replica& replica, Device& device, Client& client,
                         int servers)
    : model_(model),
      replica_(replica),
      device_(device),
      client_(client),
      chunks_(partition(model, servers)),
      missing_(model.units.size()) {}

void ReplicaLink::push(std::size_t unit, std::int64_t step) {
  for (const Chunk& chunk : chunks_)
    if (chunk.unit == unit) client_.tell(chunk.server, request(Kind::push, chunk, step));
}

void ReplicaLink::push_pull(std::size_t unit, std::int64_t step) {
  for (const Chunk& chunk : chunks_)
    if (chunk.unit == unit) ask_values(Kind::push_pull, chunk, step);
}

void ReplicaLink::pull(std::int64_t steps) {
  for (const Chunk& chunk : chunks_) ask_values(Kind::pull, chunk, steps);
}

void ReplicaLink::wait_for(std::size_t unit) {
  client_.wait("values of " + model_.units[unit]->name(), [&] { return missing_[unit] == 0; });
}

void ReplicaLink::visit(const SyncScheme::ParameterVisitor& visit) const {
  for (std::size_t u = 0; u < model_.units.size(); ++u)
    visit(*model_.units[u], replica_.parameters(u));
}

Message ReplicaLink::request(Kind kind, const Chunk& chunk, std::int64_t step) const {
  Message message;
  message.header.kind = kind;
  message.header.step = step;
  message.header.begin = chunk.begin;
  message.header.count = chunk.count;
  if (kind != Kind::pull)
    message.frames.push_back(replica_.gradients().range(chunk.begin, chunk.count));
  return message;
}

void ReplicaLink::ask_values(Kind kind, const Chunk& chunk, std::int64_t step) {
  ++missing_[chunk.unit];
  client_.ask(chunk.server, request(kind, chunk, step),
              fmt::format("{} {}", name_of(kind), model_.units[chunk.unit]->name()),
              [this, chunk](const Message& reply) { take(chunk, reply); });
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
}

}  // namespace ringside::ps
