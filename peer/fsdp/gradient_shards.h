// Gradients on their way from backward to the shards of their sums.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/nn/pass.h"
#include "peer/fsdp/gradient_buckets.h"
#include "peer/fsdp/mesh.h"
#include "peer/fsdp/shard_carrier.h"
#include "peer/fsdp/sharded_storage.h"

namespace ringside::peer {

/// Says where the backward of a unit writes its gradient, and adds up the gradients of all ranks
/// and micro-batches, so that this rank has the sum of its shard. Within the mesh's group a
/// gradient is reduce-scattered; across groups, the shard is all-reduced. A gradient is added up in
/// one of two orders: over this rank's micro-batches first (train.reduce "last"), then once over
/// ranks; or over ranks in every micro-batch, then over micro-batches. If ranks meet once a step
/// (ShardCarrier::meets_once), the first order holds in any case: each owner adds up the
/// micro-batches of one rank separately from those of the others.
///
/// Backward writes in parameter_dtype(), ranks sum in reduce_dtype(), and sums() are of sum_dtype()
/// (core/plan/train_config.h). Ranks sum a bucket of FSDP units at a time. A bucket of one FSDP
/// unit whose dtype need not change is sent from where backward wrote it; so are several FSDP units
/// if the group is one rank. Any other bucket is packed into a copy, in which the first rank's
/// shards of all FSDP units lie one after the other, then the second rank's, and so on; or all
/// elements as in the model, if the carrier takes them so (ShardCarrier::takes_whole).
///
/// Memory: the sums are of kind gradient. They are whole if asked for, if the group is one rank, or
/// if this rank adds up several micro-batches first; whole gradients of another dtype than the sums
/// lie beside them, and the sums are shards then. The gradient of a later micro-batch that the rank
/// adds up itself is of kind gradient too, one unit at a time. All other gradients, and copies, are
/// of kind communication: at most two buckets of what is sent, and, if that is a copy, the gradient
/// of one FSDP unit. A carrier that takes buckets as they lie in the model needs them in all of its
/// R rounds, so there are at most R + 1 of them, and this rank's parts of those that are copies.
class GradientShards {
 public:
  /// `carrier` is null if the mesh's group is this rank alone. `whole` keeps whole gradients even
  /// if shards of them are enough. A bucket is one FSDP unit if the carrier meets once. All
  /// arguments outlive this object.
  GradientShards(const RankContext& context, const Shards& shards, const GradientBuckets& buckets,
                 const Mesh& mesh, ShardCarrier* carrier, bool whole);

  /// Returns where the unit's backward of this micro-batch has to write. May wait for gradients
  /// that are on their way.
  Tensor target(std::size_t unit, const Pass& pass);
  /// Takes the gradient that backward has written, and begins to reduce the unit's bucket once that
  /// is complete. Blocks in two cases. In a mesh of several groups of several ranks it waits until
  /// the previous bucket has been reduce-scattered, and begins to sum its shards across groups.
  /// Before it makes a copy, it waits for the memory of earlier copies.
  void reduce(std::size_t unit, const Pass& pass);
  /// If ranks meet once a step: waits for all of them, and completes sums(). Called before
  /// finish(), after the last micro-batch.
  void meet();
  /// Waits until the FSDP unit's shard of sums() is complete.
  void finish(std::size_t fsdp_unit);
  void finish_all();
  /// Does what finish() does for the FSDP units that have arrived; does not block.
  void finish_arrived();
  /// Whether the FSDP unit's shard of sums() is complete, if backward has completed the FSDP units
  /// from `lowest` on.
  bool is_summed(std::size_t fsdp_unit, std::size_t lowest) const;
  /// Whether sums() are complete only after meet().
  bool meets_once() const { return carrier_ && carrier_->meets_once(); }

  /// The gradient of the step. After finish() an FSDP unit's shard is its sum over all ranks and
  /// micro-batches; the rest of a whole gradient means nothing.
  const ShardedStorage& sums() const { return sums_; }

  /// The number of elements, with padding, of every bucket.
  std::vector<std::int64_t> counts() const;

 private:
  /// A gradient that is being summed over ranks.
  struct OnItsWay {
    std::size_t bucket;
    Tensor part;       // receives this rank's part of the sum
    bool in_sums;      // whether `part` is where sums() has it
    bool later;        // whether `part` is then added to the sum over earlier micro-batches
    Tensor temporary;  // what is sent, if it is not a part of a whole gradient or of sums()
    WorkPtr work;      // of the present round; null if that moves nothing
    int round = 0;     // of the carrier, or, as the last one, across groups
  };

  /// The gradients that backward writes, if this rank keeps whole ones.
  const ShardedStorage& written() const { return apart_ ? *apart_ : sums_; }
  Tensor make_target(std::size_t fsdp_unit, bool later);
  void send(std::size_t fsdp_unit, const Tensor& gradient, bool later, Tensor temporary);
  void pack(std::size_t fsdp_unit, const Tensor& gradient, bool in_sums);
  void go_on(OnItsWay& gradient);
  /// Begins to sum `part` across groups; records and traces show the `name`.
  WorkPtr begin_across(const std::string& name, const Tensor& part);
  void make_room();
  void finish_first();
  void take(const OnItsWay& gradient);
  void add(const std::string& name, const Tensor& in, const Tensor& out);
  void wait(OnItsWay& gradient, std::string_view operation);
  /// Where a bucket is packed; where its sum over ranks leaves this rank's part, if sums() does not
  /// get that directly.
  Tensor new_packed(std::size_t bucket) const;
  Tensor part_of_sent(std::size_t bucket, const Tensor& sent) const;
  /// The number of elements that this rank gets of the bucket, and where sums() has them, if they
  /// lie there one after the other.
  std::int64_t part_count(std::size_t bucket) const;
  Tensor part_of_sums(std::size_t bucket) const;
  bool is_one_stretch(std::size_t bucket) const;

  const RankContext& context_;
  const Shards& shards_;
  const GradientBuckets& buckets_;
  const Mesh& mesh_;
  ShardCarrier* carrier_;
  int rounds_;        // of a gradient on its way
  bool takes_whole_;  // a bucket is sent as it lies in the model
  DType written_as_, reduced_as_;
  bool adds_up_first_;  // this rank adds up its micro-batches before they are summed over ranks
  bool keeps_whole_;
  ShardedStorage sums_;
  std::optional<ShardedStorage> apart_;  // whole gradients, if the sums are of another dtype
  Tensor target_;  // of the FSDP unit in backward, or of a unit that this rank adds up itself
  Tensor packed_;  // the part of a bucket that is complete, if it is sent in a copy
  std::deque<OnItsWay> on_their_way_;
};

}  // namespace ringside::peer
