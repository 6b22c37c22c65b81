#include "core/data/loader.h"

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

#include "core/base/error.h"
#include "core/num/random.h"

namespace ringside {
namespace {

/// The most bytes of samples that are read into host memory before they are copied; a larger sample
/// is read alone.
constexpr std::size_t read_at_once = 1 << 20;

/// Reorders targets that lie sample after sample, each with all its parts (the terms of the loss):
/// the result has the first part of every sample, then the second part of every sample, and so on.
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

Shape stacked(std::int64_t count, const Shape& sample) {
  switch (sample.rank()) {
    case 1:
      return {count, sample[0]};
    case 2:
      return {count, sample[0], sample[1]};
    case 3:
      return {count, sample[0], sample[1], sample[2]};
    default:
      throw Error("data: a sample of shape {} has {} extents; a sample must have 1 to 3 extents",
                  sample.text(), sample.rank());
  }
}

/// The batches that expect() announced, and the thread that fills them in the order of their
/// announcement.
class Loader::Ahead {
 public:
  explicit Ahead(const Loader& loader) : loader_(loader) {}

  void expect(const BatchSlice& slice) {
    auto entry = std::make_shared<Entry>();
    entry->slice = slice;
    entry->batch = loader_.allocate(slice);
    entry->upload = loader_.device_.upload();
    {
      std::lock_guard lock(mutex_);
      if (find_locked(slice) != expected_.end()) return;
      expected_.push_back(std::move(entry));
      if (!thread_.joinable()) thread_ = std::jthread([this](std::stop_token end) { run(end); });
    }
    changed_.notify_all();
  }

  /// The announced batch, or an empty one. If `filled` is false, the caller has to fill it.
  struct Taken {
    Batch batch;
    bool filled = false;
  };
  Taken take(const BatchSlice& slice) {
    std::unique_lock lock(mutex_);
    const auto found = find_locked(slice);
    if (found == expected_.end()) return {};
    const std::shared_ptr<Entry> entry = *found;
    expected_.erase(found);
    // If the thread has not begun this batch, filling it here is faster than a change of threads.
    if (entry->state == State::waiting) return {entry->batch, false};
    changed_.wait(lock, [&] { return entry->state == State::done; });
    if (entry->error) std::rethrow_exception(entry->error);
    if (entry->upload) entry->upload->finish();
    return {entry->batch, true};
  }

 private:
  enum class State : std::uint8_t { waiting, begun, done };
  struct Entry {
    BatchSlice slice;
    Batch batch;
    std::unique_ptr<Upload> upload{};  // is destroyed before the batch
    State state = State::waiting;
    std::exception_ptr error{};
  };
  using Entries = std::deque<std::shared_ptr<Entry>>;

  Entries::iterator find_locked(const BatchSlice& slice) {
    return std::find_if(expected_.begin(), expected_.end(),
                        [&](const auto& entry) { return entry->slice == slice; });
  }
  std::shared_ptr<Entry> first_waiting_locked() const {
    const auto found = std::find_if(expected_.begin(), expected_.end(), [](const auto& entry) {
      return entry->state == State::waiting;
    });
    return found == expected_.end() ? nullptr : *found;
  }

  void run(const std::stop_token& end) {
    std::unique_lock lock(mutex_);
    std::shared_ptr<Entry> entry;
    while (changed_.wait(lock, end, [&] { return (entry = first_waiting_locked()) != nullptr; }) &&
           !end.stop_requested()) {
      entry->state = State::begun;
      lock.unlock();
      try {
        loader_.fill(entry->slice, entry->batch, entry->upload.get());
      } catch (...) {
        entry->error = std::current_exception();
      }
      lock.lock();
      entry->state = State::done;
      entry.reset();
      changed_.notify_all();
    }
  }

  const Loader& loader_;
  std::mutex mutex_;
  std::condition_variable_any changed_;
  Entries expected_;
  std::jthread thread_;  // is destroyed before the members that it uses
};

Loader::Loader(const Dataset& dataset, Device& device, std::int64_t global_batch,
               std::uint64_t seed, Reading reading)
    : dataset_(dataset),
      device_(device),
      global_batch_(global_batch),
      seed_(seed),
      sampler_(dataset.size(), global_batch, seed),
      ahead_(reading == Reading::ahead ? std::make_unique<Ahead>(*this) : nullptr) {}

Loader::~Loader() = default;

void Loader::expect(const BatchSlice& slice) const {
  if (ahead_) ahead_->expect(slice);
}

Batch Loader::read(const BatchSlice& slice) const {
  Batch batch;
  if (ahead_) {
    auto taken = ahead_->take(slice);
    if (taken.filled) return taken.batch;
    batch = std::move(taken.batch);
  }
  if (!batch.inputs) batch = allocate(slice);
  fill(slice, batch, nullptr);
  return batch;
}

Batch Loader::allocate(const BatchSlice& slice) const {
  if (slice.step < 0 || slice.first < 0 || slice.count < 1 ||
      slice.first + slice.count > global_batch_)
    throw Error("data: samples {} to {} of step {} do not exist; a global batch has {} samples",
                slice.first, slice.first + slice.count, slice.step, global_batch_);
  Shape input = dataset_.input_shape(), target = dataset_.target_shape();
  if (dataset_.length(sample(slice, 0))) {
    std::int64_t longest = 0;
    for (std::int64_t i = 0; i < slice.count; ++i)
      longest = std::max(longest, *dataset_.length(sample(slice, i)));
    input = target = {longest};
  }
  const bool several = dataset_.target_parts().size() > 1;
  return {
      device_.tensor(stacked(slice.count, input), MemoryKind::data, dataset_.input_dtype()),
      device_.tensor(several ? Shape{slice.count * target.count()} : stacked(slice.count, target),
                     MemoryKind::data, DType::i32)};
}

std::int64_t Loader::targets(const BatchSlice& slice) const {
  std::int64_t sum = 0;
  for (std::int64_t i = 0; i < slice.count; ++i) {
    const auto length = dataset_.length(sample(slice, i));
    if (!length) return 0;
    sum += *length;
  }
  return sum;
}

void Loader::fill(const BatchSlice& slice, const Batch& batch, Upload* upload) const {
  if (!device_.has_values()) return;
  const auto write = [&](const Tensor& to, std::span<const std::byte> from) {
    upload ? upload->write(to, from) : device_.write(to, from);
  };
  const auto input_bytes = batch.inputs.bytes() / static_cast<std::size_t>(slice.count);
  const std::int64_t input_count = batch.inputs.count() / slice.count;
  const auto target_count = static_cast<std::size_t>(batch.targets.count() / slice.count);
  const auto count = static_cast<std::size_t>(slice.count);
  const std::size_t at_once = std::clamp<std::size_t>(read_at_once / input_bytes, 1, count);
  const std::int64_t epoch = slice.step / batches();

  std::vector<std::byte> inputs(at_once * input_bytes);
  std::vector<std::int32_t> targets(count * target_count);
  for (std::size_t begin = 0; begin < count; begin += at_once) {
    const std::size_t end = std::min(count, begin + at_once);
    for (std::size_t i = begin; i < end; ++i) {
      const std::int64_t sample = this->sample(slice, static_cast<std::int64_t>(i));
      const auto input = std::span(inputs).subspan((i - begin) * input_bytes, input_bytes);
      dataset_.read(sample, input, std::span(targets).subspan(i * target_count, target_count));
      dataset_.augment(input,
                       random_bits(seed_, Stream::augmentation,
                                   static_cast<std::uint64_t>(epoch * dataset_.size() + sample)));
    }
    write(batch.inputs.range(static_cast<std::int64_t>(begin) * input_count,
                             static_cast<std::int64_t>(end - begin) * input_count),
          std::span(inputs).first((end - begin) * input_bytes));
  }
  const auto parts = dataset_.target_parts();
  if (parts.size() > 1) targets = part_by_part(targets, parts, target_count);
  write(batch.targets, std::as_bytes(std::span(targets)));
}

}  // namespace ringside
