// Gradients on their way from backward to the shards of their sums.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <string_view>

#include "core/nn/pass.h"
#include "peer/kept.h"
#include "peer/mesh.h"
#include "peer/shard_carrier.h"

namespace ringside::peer {

/// Says where the backward of a unit writes its gradient, and adds the gradients of all ranks and
/// micro-batches up, so that this rank has the sum of its shard. Within the mesh's group a gradient
/// is reduce-scattered; across groups, the shard is all-reduced. A gradient is added up in one of
/// two orders: over this rank's micro-batches first (train.reduce "last"), then once over ranks; or
/// over ranks in every micro-batch, then over micro-batches. If ranks meet once a step
/// (ShardCarrier::meets_once), the first order holds in any case: owners add up the micro-batches
/// of every rank apart.
///
/// Memory: the sums are of kind gradient, and whole if asked for, if the group is one rank, or if
/// this rank adds up several micro-batches first. The gradient of a later micro-batch that the rank
/// adds up itself is of kind gradient too, one unit at a time. All other gradients are of kind
/// communication, at most two bundles of them.
class GradientShards {
 public:
  /// `carrier` is null if the mesh's group is this rank alone. `whole` keeps whole gradients even
  /// if shards of them are enough. All arguments outlive this object.
  GradientShards(const RankContext& context, const Shards& shards, const Mesh& mesh,
                 ShardCarrier* carrier, bool whole);

  /// Returns where the unit's backward of this micro-batch has to write. May wait for gradients
  /// that are on their way.
  Tensor target(std::size_t unit, const Pass& pass);
  /// Takes what backward has written into the target, and begins to reduce the unit's bundle if
  /// that is complete. Blocks only in a mesh of several groups of several ranks: there it waits
  /// until the bundle before has been reduce-scattered, and sends its shard on across groups.
  void reduce(std::size_t unit, const Pass& pass);
  /// If ranks meet once a step: waits for all of them, and completes sums(). Called before
  /// finish(), after the last micro-batch.
  void meet();
  /// Waits until the bundle's shard of sums() is complete.
  void finish(std::size_t bundle);
  void finish_all();

  /// The gradient of the step. After finish() a bundle's shard is its sum over all ranks and
  /// micro-batches; the rest of a whole gradient means nothing.
  const Kept& sums() const { return sums_; }

 private:
  /// A gradient that is being summed over ranks.
  struct OnItsWay {
    std::size_t bundle;
    Tensor part;       // receives this rank's part of the sum
    bool later;        // whether `part` is then added to the sum over earlier micro-batches
    Tensor temporary;  // what backward wrote, if it is not a part of sums()
    WorkPtr work;
    bool crosses;  // whether `part` is still to be summed across groups
  };

  void send(std::size_t bundle, const Tensor& gradient, bool later, Tensor temporary);
  Tensor make_target(std::size_t bundle, bool later) const;
  void cross(OnItsWay& gradient);
  void finish_first();
  void add(const std::string& name, const Tensor& in, const Tensor& out);
  void wait(OnItsWay& gradient, std::string_view operation);
  const std::string& name(std::size_t bundle) const { return shards_.bundles()[bundle].name; }

  const RankContext& context_;
  const Shards& shards_;
  const Mesh& mesh_;
  ShardCarrier* carrier_;
  bool adds_up_first_;  // this rank adds up its micro-batches before they are summed over ranks
  Kept sums_;
  Tensor target_;  // of the bundle in backward, or of a unit that this rank adds up itself
  std::deque<OnItsWay> on_their_way_;
};

}  // namespace ringside::peer
