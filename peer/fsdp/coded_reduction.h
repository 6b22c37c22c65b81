// Sums of gradients by compressors of elements, of which every rank takes the codes of its shards.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "core/compress/compressed_bucket.h"
#include "core/scheme/rank_context.h"
#include "core/scheme/single.h"
#include "peer/fsdp/gradient_buckets.h"
#include "peer/fsdp/gradient_reduction.h"
#include "peer/fsdp/host_groups.h"
#include "peer/fsdp/sharded_storage.h"

namespace ringside::peer {

/// How gradients become codes: N ranks in H hosts of L consecutive ranks each (HostGroups).
struct GradientCodes {
  CompressionOptions compression;
  int hosts = 1;           // H; 1: all ranks exchange their codes at once
  std::int64_t least = 0;  // of an FSDP unit (FsdpUnits)
};

/// The compressed reduce-scatter of a group of N ranks, for compressors that are
/// CompressorInfo::in_parts: a rank encodes each shard of its gradient for the rank that keeps the
/// shard, tensor by tensor. Codes that are gathered elsewhere (as topk's) go to their owner by an
/// all-to-all, and the owner decodes and adds up N of them, in rank order; messages that add up by
/// themselves (as fp16's) are reduce-scattered. If one message is c bytes for the whole model, a
/// rank sends (N-1)/N c.
///
/// On several hosts (qgZ of ZeRO++: Wang et al., ICLR 2024, section 3.3) the ranks of a host do so
/// first, for all hosts at once: rank l of a host gets the host's sums of the shards of the ranks l
/// of all hosts. It encodes these sums again, for the rank l of each host, which adds them up in
/// the order of hosts. A rank sends (L-1)/L c within its host, and (H-1)/H c/L to other hosts.
///
/// What a rank loses it alone knows. So its memory of errors has a value for each element of its
/// whole gradient, also where gradients are sharded: 4 bytes a parameter; on several hosts, 4/L
/// more for what it loses of sums of its host. Codes are of MemoryKind::communication: c bytes of a
/// bucket, and as many that have come.
class CodedReduction final : public GradientReduction {
 public:
  /// All arguments outlive this object.
  CodedReduction(const RankContext& context, const Shards& shards, const GradientBuckets& buckets,
                 const HostGroups& hosts, const CompressionOptions& options);

  WorkPtr begin(std::size_t bucket, const Tensor& gradient) override;
  /// Across hosts.
  WorkPtr go_on(std::size_t bucket, int round) override;
  void finish(std::size_t bucket, const Tensor& part) override;
  int rounds() const override { return second_ ? 2 : 1; }
  /// Of shards, and, with "across_hosts/" before their names, of the sums of a host.
  void visit_state(const StateVisitor& visit) override;
  std::string_view name() const override { return "all-to-all"; }

 private:
  /// A shard of an FSDP unit without padding: where it begins in what is encoded, and in what is
  /// decoded.
  struct Coded {
    CompressedBucket codes;
    std::int64_t begin;  // in the model
    std::int64_t from, to, count;
  };
  /// One exchange among some ranks.
  struct Level {
    Communicator& among;
    std::vector<std::vector<std::vector<Coded>>> to{};  // by bucket and destination
    std::map<std::size_t, Tensor> received{};           // by bucket
  };

  WorkPtr begin(Level& level, std::size_t bucket, const Tensor& values);
  void finish(Level& level, std::size_t bucket, const Tensor& out);
  void visit_state(Level& level, const char* prefix, const StateVisitor& visit);

  const RankContext& context_;
  const Shards& shards_;
  const GradientBuckets& buckets_;
  const HostGroups& hosts_;
  Level first_;
  std::optional<Level> second_;
};

/// The definition of a scheme whose N workers sum gradients so: one rank makes the codes of all of
/// them, and adds them up in the same order.
std::unique_ptr<SyncScheme> define_coded_reduction(const RankContext& context,
                                                   const GradientCodes& codes);

}  // namespace ringside::peer
