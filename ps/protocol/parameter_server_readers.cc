// ParameterServer: the values that workers read.
#include <utility>

#include "core/base/error.h"
#include "ps/protocol/parameter_server.h"

namespace ringside::ps {

/// Values that may change before the worker has them are copied, once for each version.
Tensor ParameterServer::values_of(std::size_t index) {
  const ChunkState& state = chunks_[index];
  const Tensor now = parameters_.range(state.begin(), state.chunk().count);
  if (policy_->values_rest()) return now;
  Values& copy = copies_[index];
  if (copy.version != state.version()) copy = {copy_of(now), state.version()};
  return copy.tensor;
}

Tensor ParameterServer::values_for(std::size_t index, const ChunkReader& reader) {
  if (!codes_.of_pulls() || reader.reply.kind == Kind::peek) return values_of(index);
  const ChunkState& state = chunks_[index];
  if (codes_.takes_values(index, reader.worker, parameters_of(state).parameters))
    return values_of(index);
  return codes_.pulled(index, reader.worker, parameters_of(state).parameters, state.version());
}

Replies ParameterServer::answer_readers(std::size_t index) {
  Replies replies;
  for (ChunkReader& reader : chunks_[index].take_readers(device().clock().now())) {
    std::vector<Tensor> frames;
    if (reader.values)
      frames.push_back(reader.reply.kind == Kind::push_pull && centre_ && centre_->difference()
                           ? centre_->difference()
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
