// Sharded data parallel: ranks divide optimizer state, gradients and parameters, to a chosen
// degree.
#pragma once

#include <memory>

#include "core/base/fields.h"
#include "core/comm/algorithm.h"
#include "core/compress/compression.h"
#include "core/scheme/scheme_info.h"
#include "peer/fsdp/degree.h"

namespace ringside::peer {

struct Codes;

struct FsdpOptions {
  Shard shard = Shard::full_shard;
  std::int64_t shard_group = 0;
  bool reshard_after_forward = true;
  std::int64_t prefetch = 1;
  std::int64_t min_unit_parameters = 0;
  double bucket_mb = 0;
  bool read_in_place = true;
  Algorithm algorithm = Algorithm::native;
  CompressionOptions compression{};
  bool zero_quantized_weights = false;
  std::int64_t zero_hpz_partition_size = 1;
  bool zero_quantized_gradients = false;
};

Fields fields_of(FsdpOptions& options);

/// Throws Error for option values that are not allowed in the plan.
void check(const FsdpOptions& options, const RunPlan& plan);

/// What `ranks` ranks with these options send in fewer bytes (peer/fsdp/coded_carrier.h).
Codes codes_of(const FsdpOptions& options, int ranks);

/// Trains N ranks in groups of G that hold one model together (Rajbhandari et al., SC'20,
/// sections 5 and 7; Zhao et al., VLDB 2023, section 3.2): G = N unless `shard_group` says
/// otherwise. Every rank keeps one of G shards of every unit's optimizer state, and updates this
/// shard of the parameters. The table has the other bytes that a rank keeps, and the bytes that it
/// sends to its group, for P bytes of parameters and one micro-batch:
///
///   stage  degrees                               parameters  gradients  sends
///   0      no_shard (G = 1)                      P           P          nothing
///   1      shard_optimizer, hybrid_shard_zero1   P           P          2 (G-1)/G P
///   2      shard_grad_op, hybrid_shard_zero2     P           P/G        2 (G-1)/G P
///   3      full_shard, hybrid_shard, on_demand   P/G         P/G        3 (G-1)/G P
///
/// Gradients are reduce-scattered within the group after the backward of each unit. With N/G > 1
/// groups the sums of a shard are all-reduced across groups, for which a rank sends another 2 (N/G
/// - 1) / (N/G) * P/G bytes. In stages 1 and 2 the group gathers the parameters once a step, after
/// the update, while the next forward goes on; a step that fp16 skips gathers nothing. In stage 3 a
/// unit is all-gathered before its forward and again before its backward, and freed after each. At
/// most `prefetch` units ahead of the computed one are gathered, and one more if the computed unit
/// reads the parameters of another unit (Unit::lender); the bytes of this lender are then sent once
/// more in each micro-batch. Without `reshard_after_forward` a unit stays gathered from its
/// forward to its backward: stage 3 then sends 2 (G-1)/G P, and holds P bytes of gathered units
/// where forward ends. In stages 2 and 3 at most two units' whole gradients are alive. Gathered
/// units and such gradients are of MemoryKind::communication; peer/fsdp/gradient_shards.h says the
/// memory that several micro-batches add, and the effect of train.reduce_precision: reduced
/// gradients then have the bytes of that dtype. All bytes include the padding of each unit to a
/// multiple of G elements.
///
/// With `min_unit_parameters` above 0, all statements above about a unit hold for an FSDP unit
/// (peer/fsdp/fsdp_units.h): messages are fewer and larger, and gathered units and gradients take
/// more memory.
///
/// With `bucket_mb` above 0, gradients of neighbouring units are reduced in buckets of
/// about this size (peer/fsdp/gradient_shards.h), while parameters are gathered as before. A
/// bucket is packed into a copy in which the shards of each rank lie together, so that one
/// reduce-scatter gives every rank its shards of all these units. Instead of two units' gradients,
/// at most two buckets are then alive, and the gradient of the unit in backward.
///
/// on_demand moves the same bytes without collectives, and keeps (N-1)/N P bytes more. Its ranks
/// wait for each other only at the update of a step (peer/fsdp/shard_carrier.cc).
///
/// With Offload::parameters the shards of parameters lie in the host's memory. Before a unit is
/// gathered its shard is copied to the device, one unit further ahead than units are gathered: the
/// device holds gathered units and at most `prefetch` + 2 such shards. A group of one rank then
/// copies whole units, and frees them as if they had been gathered.
///
/// Stage 3 gathers nothing if the ranks of a group compute in one memory (Communicator::share: on
/// CPUs of one host, with Algorithm::native), nothing is offloaded and `read_in_place` is true. The
/// group then has one array of parameters: every rank updates its own shards of the array, and
/// units read all shards in place. Ranks wait once after the update instead of in every gathering;
/// reduce-scatters remain. No rank holds gathered units. A unit's bytes count as read as often as
/// they would be gathered, and are computed (Traffic::computed). `prefetch` has no effect, and
/// `reshard_after_forward` changes only this count.
///
/// With a compressor the sums of one group are compressed, and it is an algorithm of its own:
/// compressors of elements encode each shard for its owner, in place of the reduce-scatter
/// (peer/fsdp/coded_reduction.h); any other one sums whole buckets, as under ddp, of which every
/// rank keeps its shards (peer/fsdp/whole_reduction.h). Both say the bytes, and the memory of
/// errors. zero_quantized_weights and zero_quantized_gradients, the qwZ and qgZ of ZeRO++ (Wang et
/// al., ICLR 2024) for full_shard, make another algorithm too; its hpZ, zero_hpz_partition_size,
/// changes no bits (peer/fsdp/coded_carrier.h). With p and g bytes a parameter, of which codes take
/// q, a rank of N on hosts of L sends (N-1)/N q P/p to gather, and (L-1)/L P to gather again. One
/// rank alone sends nothing, and codes nothing.
///
/// In a group of one rank nothing else is copied: parameters are used in place, and units'
/// gradients are their own shards.
///
/// With several micro-batches, train.reduce "every" reduces gradients in each of them, adding up
/// over ranks first; "last" adds up whole gradients of a rank first and reduces once. Sums over
/// ranks are in rank order, or in that of the algorithm. Rank order with "last", with one
/// micro-batch, or with on_demand, is the order of `single`. Several groups of several ranks are
/// another order: they add up within each group first and then over groups.
std::unique_ptr<SyncScheme> make_fsdp(const RankContext& context, const FsdpOptions& options);

/// The order in which a run adds up; define_fsdp() repeats an order of its own on one rank.
SumOrder fsdp_order(const FsdpOptions& options, const RunPlan& plan);
std::unique_ptr<SyncScheme> define_fsdp(const RankContext& context, const FsdpOptions& options);

double fsdp_minimum_bytes(const StepShape& shape, const FsdpOptions& options);

/// The scheme's info, for the registry; and that of fsdp with one degree alone, by its name in the
/// ZeRO paper.
SchemeInfo fsdp_info();
SchemeInfo zero_info(std::string_view name, std::string_view summary, Shard shard);

}  // namespace ringside::peer
