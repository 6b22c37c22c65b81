#include "peer/kept.h"

namespace ringside::peer {

Kept::Kept(const RankContext& context, const Shards& shards, bool whole, MemoryKind kind)
    : context_(context),
      shards_(shards),
      whole_(whole),
      values_(context.device.tensor({whole ? shards.whole_count() : shards.own_count()}, kind,
                                    parameter_dtype(context.plan.train))) {}

Tensor Kept::shard(std::size_t u) const {
  return whole_ ? shards_.of_unit(unit(u), u) : shards_.of_own(values_, u);
}

Tensor Kept::own_range() const {
  if (is_own_range()) return values_;
  const Tensor out =
      context_.device.tensor({shards_.own_count()}, MemoryKind::workspace, values_.dtype());
  for (std::size_t u = 0; u < shards_.units(); ++u)
    context_.device.kernels().copy({.in = shard(u), .out = shards_.of_own(out, u)});
  return out;
}

void Kept::initialise() const {
  const auto initial = initial_values(context_);
  const Model& model = shards_.model();
  for (std::size_t u = 0; u < shards_.units(); ++u) {
    const Tensor kept = whole_ ? unit(u) : shard(u);
    const std::int64_t real = whole_ ? shards_.count(u) : shards_.real_count(u);
    const std::int64_t begin = whole_ ? 0 : shards_.begin_in_unit(u);
    if (real > 0)
      initial->write(*model.units[u], model.first_parameter(u), begin, kept.range(0, real));
    if (real < kept.count())
      context_.device.kernels().fill({.out = kept.range(real, kept.count() - real)});
  }
}

}  // namespace ringside::peer
