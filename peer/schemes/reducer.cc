#include "peer/schemes/reducer.h"

#include <algorithm>
#include <utility>

#include "core/device/convert.h"
#include "peer/schemes/exposed.h"

namespace ringside::peer {

std::vector<Bucket> make_buckets(const Model& model, DType dtype, double bytes) {
  std::vector<Bucket> buckets;
  const auto element = static_cast<double>(size_of(dtype));
  std::int64_t end = model.parameter_count();
  for (std::size_t u = model.units.size(); u-- > 0;) {
    const std::int64_t begin = model.first_parameter(u);
    const bool closes = model.divides_gradients(u);
    if (static_cast<double>(end - begin) * element < bytes && !closes) continue;
    buckets.push_back({"bucket " + std::to_string(buckets.size()), u, begin, end - begin, closes});
    end = begin;
  }
  return buckets;
}

Reducer::Reducer(Device& device, Timeline& timeline, std::vector<Bucket> buckets,
                 const Tensor& gradients, const Tensor& total, Operation operation)
    : device_(device),
      timeline_(timeline),
      buckets_(std::move(buckets)),
      gradients_(gradients),
      total_(total),
      operation_(std::move(operation)),
      under_way_(buckets_.size()) {}

Reducer::Operation all_reduce_by(Communicator& communicator, const std::vector<Bucket>& buckets,
                                 DType dtype, bool overlaps) {
  return {.name = "all-reduce",
          .dtype = dtype,
          .begin =
              [&communicator, &buckets](std::size_t bucket, const Tensor& gradients) {
                communicator.name_next(buckets[bucket].name);
                return communicator.all_reduce(gradients);
              },
          .overlaps = overlaps};
}

void Reducer::add(std::size_t unit, std::int64_t micro_batch) {
  for (std::size_t b = 0; b < buckets_.size(); ++b) {
    if (buckets_[b].first_unit != unit) continue;
    if (operation_.overlaps)
      begin(b, micro_batch);
    else if (buckets_[b].closes)
      sum_at_once(b, micro_batch);
  }
}

void Reducer::sum_at_once(std::size_t bucket, std::int64_t micro_batch) {
  std::size_t first = bucket;
  while (first > 0 && !buckets_[first - 1].closes) --first;
  for (std::size_t b = first; b <= bucket; ++b) begin(b, micro_batch);
  for (std::size_t b = first; b <= bucket; ++b) finalize(b);
}

void Reducer::begin(std::size_t bucket, std::int64_t micro_batch) {
  for (std::size_t other = 0; other < bucket; ++other)
    if (under_way_[other].round >= 0 && under_way_[other].round + 1 < operation_.rounds)
      go_on(other);
  const Tensor values = message(buckets_[bucket], micro_batch == 0);
  under_way_[bucket] = {begin_traced(timeline_, buckets_[bucket].name,
                                     [&] { return operation_.begin(bucket, values); }),
                        values, micro_batch, 0};
  begin_empty_rounds(bucket);
}

void Reducer::begin_empty_rounds(std::size_t bucket) {
  while (!under_way_[bucket].work && under_way_[bucket].round + 1 < operation_.rounds)
    begin_next(bucket);
}

void Reducer::wait(std::size_t bucket) {
  if (WorkPtr work = std::move(under_way_[bucket].work))
    wait_exposed(timeline_, operation_.name + " " + buckets_[bucket].name, std::move(work));
}

void Reducer::begin_next(std::size_t bucket) {
  UnderWay& under_way = under_way_[bucket];
  const Tensor total = total_.range(buckets_[bucket].begin, buckets_[bucket].count);
  ++under_way.round;
  under_way.work = begin_traced(timeline_, buckets_[bucket].name,
                                [&] { return operation_.next(bucket, under_way.round, total); });
}

void Reducer::go_on(std::size_t bucket) {
  wait(bucket);
  begin_next(bucket);
  begin_empty_rounds(bucket);
}

/// Returns the bucket's gradients as they are summed: in place if they have the operation's dtype;
/// in `total`, if that has it and holds no earlier sum; or else in memory of their own.
Tensor Reducer::message(const Bucket& bucket, bool first) const {
  const Tensor own = gradients_.range(bucket.begin, bucket.count);
  if (own.dtype() == operation_.dtype) return own;
  const auto span = timeline_.scope(Activity::encoding, "convert " + bucket.name,
                                    {.bytes = static_cast<std::int64_t>(own.bytes())});
  const bool in_total = first && total_.dtype() == operation_.dtype;
  const Tensor out =
      in_total ? total_.range(bucket.begin, bucket.count)
               : device_.tensor({bucket.count}, MemoryKind::communication, operation_.dtype);
  device_.kernels().cast({.in = own, .out = out});
  return out;
}

void Reducer::finalize(std::size_t bucket) {
  UnderWay& under_way = under_way_[bucket];
  if (under_way.round < 0) return;
  while (under_way.round + 1 < operation_.rounds) go_on(bucket);
  wait(bucket);
  const Bucket& range = buckets_[bucket];
  under_way.round = -1;
  const Tensor values = std::exchange(under_way.values, {});
  const Tensor sum = total_.range(range.begin, range.count);
  if (operation_.finish) return operation_.finish(bucket, sum);
  if (values.begins_at(sum)) return;
  const bool adds = under_way.micro_batch > 0, converts = values.dtype() != sum.dtype();
  const auto span = timeline_.scope(adds || !converts ? Activity::compute : Activity::encoding,
                                    (adds || !converts ? "add up " : "convert ") + range.name,
                                    {.bytes = static_cast<std::int64_t>(values.bytes())});
  if (adds)
    add_converted(device_, values, sum);
  else
    device_.kernels().cast({.in = values, .out = sum});
}

bool Reducer::finalize_if_ready(std::size_t bucket, std::int64_t micro_batch) {
  const UnderWay& under_way = under_way_[bucket];
  if (!under_way.work || under_way.micro_batch != micro_batch ||
      under_way.round + 1 < operation_.rounds || !under_way.work->ready())
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
