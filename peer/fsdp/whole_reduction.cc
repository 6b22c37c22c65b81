#include "peer/fsdp/whole_reduction.h"

#include <utility>

#include "core/compress/compressor_info.h"

namespace ringside::peer {
namespace {

std::vector<Bucket> ranges_of(const GradientBuckets& buckets) {
  std::vector<Bucket> out;
  for (std::size_t b = 0; b < buckets.size(); ++b)
    out.push_back({.name = buckets[b].name, .begin = buckets[b].begin, .count = buckets[b].count});
  return out;
}

}  // namespace

WholeReduction::WholeReduction(const RankContext& context, Communicator& group,
                               const Shards& shards, const GradientBuckets& buckets,
                               const CompressionOptions& options)
    : context_(context),
      shards_(shards),
      buckets_(buckets),
      gathers_(find_compressor(options.compressor).move == Compressor::Move::gather),
      sum_(context, group, shards.fsdp_units().model(), ranges_of(buckets), options),
      steps_(sum_.operation(reduce_dtype(context.plan.train), true)),
      whole_(buckets.size()) {}

WorkPtr WholeReduction::begin(std::size_t bucket, const Tensor& gradient) {
  whole_[bucket] = gradient.range(0, buckets_[bucket].count);
  return steps_.begin(bucket, whole_[bucket]);
}

WorkPtr WholeReduction::go_on(std::size_t bucket, int round) {
  return steps_.next(bucket, round, whole_[bucket]);
}

void WholeReduction::finish(std::size_t bucket, const Tensor& part) {
  const Tensor whole = std::exchange(whole_[bucket], {});
  steps_.finish(bucket, whole);
  keep_part(bucket, whole, part);
}

/// Copies this rank's shards of the sum, unless `part` is where the sum has them.
void WholeReduction::keep_part(std::size_t bucket, const Tensor& whole, const Tensor& part) const {
  const GradientBucket& range = buckets_[bucket];
  const auto span = context_.timeline.scope(Activity::encoding, "keep the part of " + range.name,
                                            {.bytes = static_cast<std::int64_t>(part.bytes())});
  const Kernels& kernels = context_.device.kernels();
  for (std::size_t u = range.first; u <= range.last; ++u) {
    const std::int64_t in_part = shards_.begin(u) - shards_.begin(range.first);
    const std::int64_t real = shards_.real_count(u);
    const std::int64_t padding = shards_.padded_count(u) / shards_.ranks() - real;
    if (padding > 0) kernels.fill({.out = part.range(in_part + real, padding)});
    if (real == 0) continue;
    const Tensor own = part.range(in_part, real);
    const Tensor sum = whole.range(
        shards_.fsdp_units()[u].begin - range.begin + shards_.begin_in_fsdp_unit(u), real);
    if (!own.begins_at(sum)) kernels.copy({.in = sum, .out = own});
  }
}

std::unique_ptr<SyncScheme> define_whole_reduction(const RankContext& context,
                                                   const CompressionOptions& options,
                                                   std::int64_t least, double bucket_bytes) {
  return define_compressed(
      context, options, [&plan = context.plan, least, bucket_bytes](const Model& model) {
        return ranges_of(
            GradientBuckets(FsdpUnits(model, least), reduce_dtype(plan.train), bucket_bytes));
      });
}

}  // namespace ringside::peer
