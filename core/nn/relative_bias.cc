#include "core/nn/relative_bias.h"

#include <algorithm>
#include <cmath>
#include <span>
#include <vector>

#include "core/nn/layer_tensors.h"

namespace ringside {

std::int64_t bucket_of(std::int64_t distance, const RelativeBiasOptions& o) {
  const std::int64_t buckets = o.both_sides ? o.buckets / 2 : o.buckets, exact = buckets / 2;
  const std::int64_t first = o.both_sides && distance > 0 ? buckets : 0;
  const std::int64_t away =
      o.both_sides ? std::abs(distance) : std::max<std::int64_t>(-distance, 0);
  if (away < exact) return first + away;
  // In fp32, as Hugging Face's program computes it: there a distance at the beginning of a bucket
  // falls into that bucket.
  const auto times = [](std::int64_t a, std::int64_t b) {
    return std::log(static_cast<float>(a) / static_cast<float>(b));
  };
  const float share = times(away, exact) / times(o.furthest, exact);
  const auto beyond = static_cast<std::int64_t>(share * static_cast<float>(buckets - exact));
  return first + std::min(exact + beyond, buckets - 1);
}

RelativeBias::RelativeBias(Unit& unit, const std::string& name, const RelativeBiasOptions& o,
                           Init init)
    : unit_(unit),
      distances_(2 * o.positions - 1),
      heads_(o.heads),
      table_(unit.declare().add(name + ".buckets", {o.buckets, o.heads}, init)),
      buckets_(unit.device().tensor({1, distances_}, MemoryKind::data, DType::i32)) {
  if (!unit.device().has_values()) return;
  std::vector<std::int32_t> numbers;
  for (std::int64_t distance = 1 - o.positions; distance < o.positions; ++distance)
    numbers.push_back(static_cast<std::int32_t>(bucket_of(distance, o)));
  unit.device().write(buckets_, std::as_bytes(std::span(numbers)));
}

Tensor RelativeBias::forward() const {
  const EmbeddingForward op{.tokens = buckets_,
                            .token_table = unit_.value(table_),
                            .y = layer::activation(unit_, {distances_, heads_})};
  unit_.device().kernels().embedding_forward(op);
  return op.y;
}

void RelativeBias::backward(const Tensor& gradient, Saved& saved) {
  saved.do_weights([this, gradient] { add_up(gradient); });
}

void RelativeBias::add_up(const Tensor& gradient) const {
  const Kernels& kernels = unit_.device().kernels();
  const Tensor dtable = unit_.gradient(table_);
  if (!gradient) return kernels.fill({.out = dtable});
  Tensor dy = gradient;
  if (dtable.dtype() != gradient.dtype()) {
    dy = unit_.device().tensor(gradient.shape(), MemoryKind::workspace, dtable.dtype());
    kernels.cast({.in = gradient, .out = dy});
  }
  kernels.embedding_backward({.tokens = buckets_, .dy = dy, .dtoken_table = dtable});
}

}  // namespace ringside
