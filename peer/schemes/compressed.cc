#include "peer/schemes/compressed.h"

#include <utility>

#include "core/scheme/single.h"

namespace ringside::peer {
namespace {

CompressorContext compressor_context(const RankContext& context, const Model& model,
                                     const Bucket& bucket, const CompressionOptions& options,
                                     int worker, int workers) {
  return {.device = context.device,
          .options = options,
          .pieces = pieces_of(model, bucket.begin, bucket.count),
          .worker = worker,
          .workers = workers,
          .seed = static_cast<std::uint64_t>(context.plan.train.seed)};
}

Tensor new_message(Device& device, Compressor::Form form, MemoryKind kind, int messages = 1) {
  return device.tensor({messages * form.count}, kind, form.dtype);
}

}  // namespace

Tensor added_up(Device& device, const std::vector<Tensor>& messages) {
  const Tensor sum = device.tensor(messages[0].shape(), MemoryKind::workspace, messages[0].dtype());
  device.kernels().copy({.in = messages[0], .out = sum});
  for (std::size_t w = 1; w < messages.size(); ++w)
    device.kernels().add({.in = messages[w], .out = sum});
  return sum;
}

void visit_compressor(Device& device, CompressedBucket& bucket, const StateRange& like,
                      const StateVisitor& visit) {
  bucket.visit_state([&](const CompressorState& state) {
    StateRange range = like;
    range.name += state.name;
    if (!state.elementwise) range.begin = 0;
    range.of_options = !state.elementwise;
    range.of_elements = state.elementwise;
    if (state.common)
      range.replica = -1;
    else
      range.holder = 0, range.holders = 1;
    range.values = state.values.reshaped({state.values.count()});
    range.device = &device;
    visit(range);
  });
}

void visit_compressor_steps(Device& device, std::uint32_t& steps, std::int64_t first,
                            std::int64_t tensors, const StateRange& like,
                            const StateVisitor& visit) {
  StateRange range = like;
  range.name += "compressor_steps";
  range.replica = -1;
  range.begin = 2 * first;
  visit_number(device, range, steps, tensors, visit);
}

CompressedSum::CompressedSum(const RankContext& context, Communicator& communicator,
                             const Model& model, const std::vector<Bucket>& buckets,
                             const CompressionOptions& options)
    : context_(context), communicator_(communicator) {
  for (const Bucket& bucket : buckets) {
    CompressorContext own = compressor_context(context, model, bucket, options, communicator.rank(),
                                               communicator.size());
    const std::vector<Piece>& pieces = own.pieces;
    const std::int64_t first = pieces.empty() ? 0 : pieces.front().number;
    const auto tensors = static_cast<std::int64_t>(pieces.size());
    buckets_.push_back({bucket, first, tensors, CompressedBucket(std::move(own))});
  }
}

void CompressedSum::visit_state(const StateVisitor& visit, const char* prefix) {
  for (One& one : buckets_) {
    const StateRange like{.name = prefix,
                          .replica = communicator_.rank(),
                          .begin = one.range.begin,
                          .holder = communicator_.rank(),
                          .holders = communicator_.size()};
    std::uint32_t steps = one.bucket.steps();
    if (one.tensors > 0)
      visit_compressor_steps(context_.device, steps, one.first_tensor, one.tensors, like, visit);
    one.bucket.set_steps(steps);
    visit_compressor(context_.device, one.bucket, like, visit);
  }
}

WorkPtr CompressedSum::move(One& one, int round) {
  const Compressor::Form form = one.bucket.form(round);
  one.received.clear();
  if (form.count == 0) return nullptr;
  const bool gathers = one.bucket.move() == Compressor::Move::gather;
  const int messages = gathers ? communicator_.size() : 1;
  one.messages = new_message(context_.device, form, MemoryKind::communication, messages);
  for (int m = 0; m < messages; ++m)
    one.received.push_back(one.messages.range(m * form.count, form.count));
  const Tensor own = one.received[gathers ? static_cast<std::size_t>(communicator_.rank()) : 0];
  {
    const auto span = context_.timeline.scope(Activity::encoding, "encode " + one.range.name,
                                              {.bytes = static_cast<std::int64_t>(own.bytes())});
    one.bucket.give(round, own);
  }
  communicator_.name_next(one.range.name);
  return gathers ? communicator_.all_gather(own, one.messages) : communicator_.all_reduce(own);
}

Reducer::Operation CompressedSum::operation(DType gradients, bool overlaps) {
  const auto take = [this](One& one, int round, const Tensor& total) {
    const auto span = context_.timeline.scope(Activity::encoding, "decode " + one.range.name);
    one.bucket.take(round, one.received, total);
    one.messages = {};
    one.received.clear();
  };
  return {.name = "sum",
          .dtype = gradients,
          .begin =
              [this](std::size_t bucket, const Tensor& values) {
                {
                  const auto span = context_.timeline.scope(
                      Activity::encoding, "remember " + buckets_[bucket].range.name);
                  buckets_[bucket].bucket.begin(values);
                }
                return move(buckets_[bucket], 0);
              },
          .overlaps = overlaps,
          .rounds = buckets_.empty() ? 1 : buckets_[0].bucket.rounds(),
          .next =
              [this, take](std::size_t bucket, int round, const Tensor& total) {
                take(buckets_[bucket], round - 1, total);
                return move(buckets_[bucket], round);
              },
          .finish =
              [this, take](std::size_t bucket, const Tensor& total) {
                One& one = buckets_[bucket];
                take(one, one.bucket.rounds() - 1, total);
              }};
}

DefinedSum::DefinedSum(const RankContext& context, const Model& model,
                       const std::vector<Bucket>& buckets, const CompressionOptions& options,
                       int workers)
    : device_(context.device), decodes_once_(find_compressor(options.compressor).in_parts) {
  for (const Bucket& bucket : buckets) {
    auto& of_workers = buckets_.emplace_back();
    for (int w = 0; w < workers; ++w)
      of_workers.emplace_back(compressor_context(context, model, bucket, options, w, workers));
  }
}

void DefinedSum::sum(std::size_t bucket, std::span<const Tensor> gradients, const Tensor& total) {
  std::vector<CompressedBucket>& workers = buckets_[bucket];
  for (std::size_t w = 0; w < workers.size(); ++w) workers[w].begin(gradients[w]);
  for (int round = 0; round < workers[0].rounds(); ++round) {
    const Compressor::Form form = workers[0].form(round);
    std::vector<Tensor> messages;
    if (form.count > 0) {
      for (CompressedBucket& worker : workers) {
        messages.push_back(new_message(device_, form, MemoryKind::workspace));
        worker.give(round, messages.back());
      }
      if (workers[0].move() == Compressor::Move::sum) messages = {added_up(device_, messages)};
    }
    if (decodes_once_) {
      workers[0].decode(messages, total);
      for (std::size_t w = 0; w < workers.size(); ++w)
        workers[w].remember(workers[0].move() == Compressor::Move::gather ? messages[w] : Tensor());
    } else {
      for (CompressedBucket& worker : workers) worker.take(round, messages, total);
    }
  }
}

std::unique_ptr<SyncScheme> define_compressed(const RankContext& context,
                                              const CompressionOptions& options,
                                              BucketsOfModel buckets_of) {
  return define_sum(
      context, [context, options, buckets_of = std::move(buckets_of)](const Model& model) {
        const std::vector<Bucket> buckets = buckets_of(model);
        const auto sum =
            std::make_shared<DefinedSum>(context, model, buckets, options, context.plan.defines);
        return [&device = context.device, buckets, sum](std::span<const Tensor> gradients,
                                                        const Tensor& total, bool first) {
          for (std::size_t b = 0; b < buckets.size(); ++b) {
            std::vector<Tensor> own;
            for (const Tensor& whole : gradients)
              own.push_back(whole.range(buckets[b].begin, buckets[b].count));
            const Tensor all = total.range(buckets[b].begin, buckets[b].count);
            const Tensor added =
                first ? all : device.tensor(all.shape(), MemoryKind::workspace, all.dtype());
            sum->sum(b, own, added);
            if (!first) device.kernels().add({.in = added, .out = all});
          }
        };
      });
}

}  // namespace ringside::peer
