// Sums of gradients by compressors that need the whole sum on every rank, which keeps its shards.
#pragma once

#include <memory>
#include <vector>

#include "core/scheme/rank_context.h"
#include "core/scheme/scheme.h"
#include "peer/fsdp/gradient_buckets.h"
#include "peer/fsdp/gradient_reduction.h"
#include "peer/fsdp/sharded_storage.h"
#include "peer/schemes/compressed.h"

namespace ringside::peer {

/// The compressed sum of a group of N ranks by a compressor that is not CompressorInfo::in_parts,
/// such as powersgd (Vogels et al., NeurIPS 2019): its later rounds, and its memory, need what all
/// elements of a tensor have become, and shards cut tensors. So each rank takes part in the sum of
/// the whole bucket, as under ddp (CompressedSum), keeps its shards of it and forgets the rest. The
/// sums are those of ddp with the same compressor.
///
/// A rank sends what compressed_bytes() says: for messages of c bytes that add up, 2 (N-1)/N c by
/// all-reduces, in as many rounds as the compressor has; for codes that are gathered, (N-1) c. The
/// sum takes the place of the rank's gradient, so R rounds keep R + 1 buckets alive. Messages are
/// of MemoryKind::communication: c bytes of a bucket, or N c. The memory of errors has 4 bytes for
/// each parameter of the whole gradient (MemoryKind::gradient), and the compressor keeps what it
/// keeps under ddp, on every rank.
class WholeReduction final : public GradientReduction {
 public:
  /// All arguments outlive this object.
  WholeReduction(const RankContext& context, Communicator& group, const Shards& shards,
                 const GradientBuckets& buckets, const CompressionOptions& options);

  bool takes_whole() const override { return true; }
  WorkPtr begin(std::size_t bucket, const Tensor& gradient) override;
  WorkPtr go_on(std::size_t bucket, int round) override;
  int rounds() const override { return steps_.rounds; }
  void finish(std::size_t bucket, const Tensor& part) override;
  void visit_state(const StateVisitor& visit) override { sum_.visit_state(visit); }
  std::string_view name() const override { return gathers_ ? "all-gather" : "all-reduce"; }

 private:
  void keep_part(std::size_t bucket, const Tensor& whole, const Tensor& part) const;

  const RankContext& context_;
  const Shards& shards_;
  const GradientBuckets& buckets_;
  bool gathers_;
  CompressedSum sum_;
  Reducer::Operation steps_;   // of sum_
  std::vector<Tensor> whole_;  // by bucket, while it is under way: the gradient, and then the sum
};

/// The definition of a scheme whose N workers sum gradients so, in buckets of FSDP units of at
/// least `least` parameters: one rank makes the messages of all of them, for the whole model.
std::unique_ptr<SyncScheme> define_whole_reduction(const RankContext& context,
                                                   const CompressionOptions& options,
                                                   std::int64_t least, double bucket_bytes);

}  // namespace ringside::peer
