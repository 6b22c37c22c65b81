#include "core/data/dataset.h"

#include "core/base/error.h"

namespace ringside {
namespace {

/// `count` samples of that shape, one after the other.
Shape stacked(std::int64_t count, const Shape& sample) {
  switch (sample.rank()) {
    case 1:
      return {count, sample[0]};
    case 2:
      return {count, sample[0], sample[1]};
    case 3:
      return {count, sample[0], sample[1], sample[2]};
    default:
      throw Error("data: a sample of shape {} has {} extents; 1 to 3 can be batched", sample.text(),
                  sample.rank());
  }
}

/// From sample after sample to part after part.
std::vector<std::int32_t> part_by_part(const std::vector<std::int32_t>& targets,
                                       const std::vector<std::int64_t>& parts,
                                       std::size_t per_sample) {
  std::vector<std::int32_t> out;
  out.reserve(targets.size());
  std::size_t begin = 0;
  for (const std::int64_t part : parts) {
    const auto count = static_cast<std::size_t>(part);
    for (std::size_t at = begin; at < targets.size(); at += per_sample)
      out.insert(out.end(), targets.begin() + static_cast<std::ptrdiff_t>(at),
                 targets.begin() + static_cast<std::ptrdiff_t>(at + count));
    begin += count;
  }
  return out;
}

}  // namespace

Loader::Loader(const Dataset& dataset, Device& device, std::int64_t global_batch,
               std::uint64_t seed)
    : dataset_(dataset),
      device_(device),
      global_batch_(global_batch),
      sampler_(dataset.size(), global_batch, seed) {}

Batch Loader::read(const BatchSlice& slice) const {
  if (slice.step < 0 || slice.first < 0 || slice.count < 1 ||
      slice.first + slice.count > global_batch_)
    throw Error("data: samples {} to {} of step {} are asked for, a global batch has {}",
                slice.first, slice.first + slice.count, slice.step, global_batch_);
  const Shape input = dataset_.input_shape(), target = dataset_.target_shape();
  const DType dtype = dataset_.input_dtype();
  const auto input_bytes = static_cast<std::size_t>(input.count()) * size_of(dtype);
  const auto target_count = static_cast<std::size_t>(target.count());
  const auto count = static_cast<std::size_t>(slice.count);

  std::vector<std::byte> inputs(count * input_bytes);
  std::vector<std::int32_t> targets(count * target_count);
  for (std::size_t i = 0; i < count; ++i)
    dataset_.read(sampler_.sample(slice.step, slice.first + static_cast<std::int64_t>(i)),
                  std::span(inputs).subspan(i * input_bytes, input_bytes),
                  std::span(targets).subspan(i * target_count, target_count));

  const auto parts = dataset_.target_parts();
  if (parts.size() > 1) targets = part_by_part(targets, parts, target_count);
  const Shape batch_target =
      parts.size() > 1 ? Shape{slice.count * target.count()} : stacked(slice.count, target);
  Batch batch{device_.tensor(stacked(slice.count, input), MemoryKind::data, dtype),
              device_.tensor(batch_target, MemoryKind::data, DType::i32)};
  device_.write(batch.inputs, inputs);
  device_.write(batch.targets, std::as_bytes(std::span(targets)));
  return batch;
}

}  // namespace ringside
