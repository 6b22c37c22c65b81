// ParameterServer: the values that workers read.
#include <utility>

#include "core/base/error.h"
#include "ps/protocol/parameter_server.h"

namespace ringside::ps {

/// Values that may change before the worker has them are copied, once for each version.
Tensor ParameterServer::values_of(std::size_t index) {
  const Tensor now = shard_.values(index);
  if (policy_->values_rest()) return now;
  Values& copy = copies_[index];
  const std::int64_t version = chunks_[index].version();
  if (copy.version != version) copy = {copy_of(now), version};
  return copy.tensor;
}

Tensor ParameterServer::values_for(std::size_t index, const ChunkReader& reader) {
  if (!codes_.of_pulls() || reader.reply.kind == Kind::peek) return values_of(index);
  const Tensor now = shard_.values(index);
  if (codes_.takes_values(index, reader.worker, now)) return values_of(index);
  return codes_.pulled(index, reader.worker, now, chunks_[index].version());
}

Replies ParameterServer::answer_readers(std::size_t index) {
  Replies replies;
  const Tensor difference = shard_.difference();
  for (ChunkReader& reader : chunks_[index].take_readers(device().clock().now())) {
    std::vector<Tensor> frames;
    if (reader.values)
      frames.push_back(reader.reply.kind == Kind::push_pull && difference
                           ? difference
                           : values_for(index, reader));
    if (reader.values && compensation_) compensation_->give(index, reader.worker, frames.back());
    reader.reply.version = chunks_[index].version();
    // Before the values: the worker may not need to read anything after them.
    if (tells_merges_)
      for (Header& told : merges_.untold(reader.worker)) {
        told.token = token();
        replies.push_back({reader.worker, {std::move(told), {}}});
      }
    replies.push_back({reader.worker, {std::move(reader.reply), std::move(frames)}});
  }
  return replies;
}

Replies ParameterServer::pull(int worker, const Header& header) {
  const std::size_t index = index_of(header);
  ChunkState& state = chunks_[index];
  // A worker that skips steps may wait for those of others.
  const std::int64_t pushed = state.clocks().next(worker) / config_.pushes;
  if (const std::int64_t most = policy_->may_skip() ? config_.steps : pushed;
      header.step < 0 || header.step > most)
    throw Error(
        "the worker asked for the values after {} steps, but has pushed {} steps; it may ask for "
        "the values after 0 to {} steps",
        header.step, pushed, most);
  state.add_reader(
      {worker, reply_to(header), header.step * config_.pushes, true, header.kind == Kind::pull});
  return answer_readers(index);
}

}  // namespace ringside::ps
