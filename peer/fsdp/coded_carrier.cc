#include "peer/fsdp/coded_carrier.h"

#include <map>
#include <optional>
#include <set>
#include <utility>

#include "core/compress/compressor_info.h"
#include "peer/fsdp/coded_reduction.h"
#include "peer/fsdp/quantised_weights.h"
#include "peer/fsdp/whole_reduction.h"

namespace ringside::peer {
namespace {

/// The secondary partition of hpZ: a host's copy of units, of which each rank keeps a part.
class HostCopies {
 public:
  HostCopies(Device& device, const HostGroups& hosts) : device_(device), hosts_(hosts) {}

  /// Whether the host has the unit's values since its last update.
  bool has(std::size_t fsdp_unit) const { return current_.contains(fsdp_unit); }
  void keep(std::size_t fsdp_unit, const Tensor& padded) {
    if (!current_.insert(fsdp_unit).second) return;
    const Tensor own = part_of(padded);
    Tensor& copy = copies_[fsdp_unit];
    if (!copy) copy = device_.tensor(own.shape(), MemoryKind::communication, own.dtype());
    device_.kernels().copy({.in = own, .out = copy});
  }
  WorkPtr gather(std::size_t fsdp_unit, const std::string& name, const Tensor& padded) {
    hosts_.within().name_next(name);
    return hosts_.within().all_gather(copies_[fsdp_unit], padded);
  }
  void forget_values() { current_.clear(); }

 private:
  Tensor part_of(const Tensor& padded) const {
    const std::int64_t count = padded.count() / hosts_.host_ranks();
    return padded.range(hosts_.place() * count, count);
  }

  Device& device_;
  const HostGroups& hosts_;
  std::map<std::size_t, Tensor> copies_;
  std::set<std::size_t> current_;
};

std::unique_ptr<GradientReduction> make_reduction(const RankContext& context, Communicator& group,
                                                  const Shards& shards,
                                                  const GradientBuckets& buckets,
                                                  const HostGroups& hosts,
                                                  const CompressionOptions& options) {
  if (find_compressor(options.compressor).in_parts)
    return std::make_unique<CodedReduction>(context, shards, buckets, hosts, options);
  return std::make_unique<WholeReduction>(context, group, shards, buckets, options);
}

class CodedCarrier final : public ShardCarrier {
 public:
  CodedCarrier(const RankContext& context, Communicator& group, const Shards& shards,
               const GradientBuckets& buckets, const ShardedStorage& parameters, const Codes& codes)
      : context_(context),
        group_(group),
        shards_(shards),
        buckets_(buckets),
        by_values_(make_collective_carrier(context, group, shards, parameters)),
        hosts_(group, codes.host_ranks),
        one_host_(group, 1) {
    if (codes.host_ranks > 1) copies_.emplace(context.device, hosts_);
    if (codes.weights) weights_.emplace(context.device, codes.block);
    if (compresses(codes.gradients))
      reduction_ = make_reduction(context, group, shards, buckets,
                                  codes.by_hosts ? hosts_ : one_host_, codes.gradients);
  }

  /// A step costs the same whether or not an evaluation before it has gathered its parameters.
  void begin_step() override {
    if (copies_) copies_->forget_values();
  }

  WorkPtr gather(std::size_t fsdp_unit, const Tensor& shard, const Tensor& padded) override {
    const std::string& name = shards_.fsdp_units()[fsdp_unit].name;
    if (copies_ && !exactly_ && copies_->has(fsdp_unit))
      return copies_->gather(fsdp_unit, name, padded);
    if (!weights_ || exactly_) return by_values_->gather(fsdp_unit, shard, padded);
    const std::int64_t bytes = weights_->bytes(shard.count());
    const Tensor all =
        context_.device.tensor({group_.size() * bytes}, MemoryKind::communication, DType::u8);
    const Tensor own = all.range(group_.rank() * bytes, bytes);
    {
      const auto span = context_.timeline.scope(Activity::encoding, "encode " + name,
                                                {.bytes = static_cast<std::int64_t>(bytes)});
      weights_->encode(shard, own);
    }
    coded_[fsdp_unit] = all;
    group_.name_next(name);
    return group_.all_gather(own, all);
  }

  void gathered(std::size_t fsdp_unit, const Tensor& padded) override {
    if (const auto coded = coded_.extract(fsdp_unit)) {
      const auto span = context_.timeline.scope(
          Activity::encoding, "decode " + shards_.fsdp_units()[fsdp_unit].name,
          {.bytes = static_cast<std::int64_t>(padded.bytes())});
      const std::int64_t count = padded.count() / group_.size();
      const std::int64_t bytes = weights_->bytes(count);
      for (int r = 0; r < group_.size(); ++r)
        weights_->decode(coded.mapped().range(r * bytes, bytes), padded.range(r * count, count));
    }
    if (copies_ && !exactly_) copies_->keep(fsdp_unit, padded);
  }
  void gather_exactly(bool exactly) override { exactly_ = exactly; }

  WorkPtr reduce(std::size_t fsdp_unit, const std::string& name, const Tensor& gradient,
                 const Tensor& part, bool later) override {
    return reduction_ ? reduction_->begin(buckets_.of(fsdp_unit), gradient)
                      : by_values_->reduce(fsdp_unit, name, gradient, part, later);
  }
  int rounds() const override { return reduction_ ? reduction_->rounds() : 1; }
  WorkPtr go_on(std::size_t fsdp_unit, int round) override {
    return reduction_->go_on(buckets_.of(fsdp_unit), round);
  }
  void reduced(std::size_t fsdp_unit, const Tensor& part) override {
    if (reduction_) reduction_->finish(buckets_.of(fsdp_unit), part);
  }
  bool takes_whole() const override { return reduction_ && reduction_->takes_whole(); }
  bool one_at_a_time() const override { return static_cast<bool>(reduction_); }

  void leave() override {
    by_values_->leave();
    if (copies_) copies_->forget_values();
  }

  void visit_state(const StateVisitor& visit) override {
    if (reduction_) reduction_->visit_state(visit);
  }

  std::string_view reduces() const override {
    return reduction_ ? reduction_->name() : by_values_->reduces();
  }
  Traffic traffic() const override { return hosts_.traffic(); }

 private:
  const RankContext& context_;
  Communicator& group_;
  const Shards& shards_;
  const GradientBuckets& buckets_;
  std::unique_ptr<ShardCarrier> by_values_;
  HostGroups hosts_, one_host_;
  bool exactly_ = false;
  std::optional<HostCopies> copies_;
  std::optional<WeightCodes> weights_;
  std::unique_ptr<GradientReduction> reduction_;  // null: gradients are summed as they are
  std::map<std::size_t, Tensor> coded_;  // units on their way in 8 bits: the codes of all shards
};

}  // namespace

std::unique_ptr<ShardCarrier> make_coded_carrier(const RankContext& context, Communicator& group,
                                                 const Shards& shards,
                                                 const GradientBuckets& buckets,
                                                 const ShardedStorage& parameters,
                                                 const Codes& codes) {
  return std::make_unique<CodedCarrier>(context, group, shards, buckets, parameters, codes);
}

}  // namespace ringside::peer
