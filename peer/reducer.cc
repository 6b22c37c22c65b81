#include "peer/reducer.h"

#include <algorithm>
#include <utility>

#include "peer/exposed.h"

namespace ringside::peer {

std::vector<Bucket> make_buckets(const Model& model, DType dtype, double bytes) {
  std::vector<Bucket> buckets;
  const auto element = static_cast<double>(size_of(dtype));
  std::int64_t end = model.parameter_count();
  for (std::size_t u = model.units.size(); u-- > 0;) {
    const std::int64_t begin = model.first_parameter(u);
    if (static_cast<double>(end - begin) * element < bytes && u > 0) continue;
    buckets.push_back({"bucket " + std::to_string(buckets.size()), u, begin, end - begin});
    end = begin;
  }
  return buckets;
}

Reducer::Reducer(Device& device, Timeline& timeline, std::vector<Bucket> buckets,
                 const Tensor& gradients, Operation operation)
    : device_(device),
      timeline_(timeline),
      buckets_(std::move(buckets)),
      gradients_(gradients),
      operation_(std::move(operation)),
      under_way_(buckets_.size()) {}

void Reducer::add(std::size_t unit, std::int64_t micro_batch) {
  for (std::size_t b = 0; b < buckets_.size(); ++b) {
    const Bucket& bucket = buckets_[b];
    if (bucket.first_unit != unit) continue;
    const Tensor range = gradients_.range(bucket.begin, bucket.count);
    under_way_[b] = {operation_.begin(range), micro_batch};
  }
}

void Reducer::finalize(std::size_t bucket) {
  UnderWay& under_way = under_way_[bucket];
  if (!under_way.work) return;
  const Bucket& range = buckets_[bucket];
  wait_exposed(timeline_, operation_.name + " " + range.name, std::move(under_way.work));
  if (!total_) return;
  const auto span = timeline_.scope(Activity::compute, "add up " + range.name);
  const Tensor part = gradients_.range(range.begin, range.count);
  const Tensor sum = total_.range(range.begin, range.count);
  if (under_way.micro_batch == 0)
    device_.kernels().copy({.in = part, .out = sum});
  else
    device_.kernels().add({.in = part, .out = sum});
}

bool Reducer::finalize_if_ready(std::size_t bucket, std::int64_t micro_batch) {
  const UnderWay& under_way = under_way_[bucket];
  if (!under_way.work || under_way.micro_batch != micro_batch || !under_way.work->ready())
    return false;
  finalize(bucket);
  return true;
}

void Reducer::finalize_of_unit(std::size_t unit) {
  const auto bucket = std::find_if(buckets_.begin(), buckets_.end(),
                                   [&](const Bucket& b) { return b.first_unit <= unit; });
  finalize(static_cast<std::size_t>(bucket - buckets_.begin()));
}

void Reducer::finalize_all() {
  for (std::size_t b = 0; b < buckets_.size(); ++b) finalize(b);
}

}  // namespace ringside::peer
