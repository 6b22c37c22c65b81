// Shared by the files of gpu_bench: operands on a GPU, and the times of kernels.
#pragma once

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include "core/device/cost.h"
#include "core/device/cuda/cuda.h"
#include "core/num/random.h"

namespace ringside {

struct Figure {
  std::string name;
  std::string dtype;
  double seconds = 0;  // of the median run
  OpCost cost;
  bool product = false;  // true if bounded by matrix products, false if by memory
  double rate() const { return (product ? cost.operations : cost.bytes) / seconds; }
};

/// Operands of kernels on one device, and their times.
class Bench {
 public:
  explicit Bench(bool tf32) : device_(cuda::make_cuda_device({.tf32 = tf32})) {}

  const Kernels& kernels() const { return device_->kernels(); }

  /// A tensor of random values with mean 0. The values repeat, which does not change the speed.
  Tensor random(Shape shape, DType dtype, float scale = 1) {
    Tensor out = device_->tensor(shape, MemoryKind::activation, dtype);
    constexpr std::int64_t period = 1'000'003;  // a prime, so that it divides no extent
    const std::int64_t first = std::min(period, out.count());
    std::vector<float> values(static_cast<std::size_t>(first));
    for (std::size_t i = 0; i < values.size(); ++i)
      values[i] = scale * static_cast<float>(random_uniform(1, Stream::synthetic_data, i) - 0.5);
    const Tensor begin = out.range(0, first);
    const Tensor exact =
        dtype == DType::f32 ? begin : device_->tensor({first}, MemoryKind::workspace);
    device_->write(exact, std::as_bytes(std::span(values)));
    if (dtype != DType::f32) kernels().cast({.in = exact, .out = begin});
    for (std::int64_t done = first; done < out.count();) {
      const std::int64_t count = std::min(done, out.count() - done);
      kernels().copy({.in = out.range(0, count), .out = out.range(done, count)});
      done += count;
    }
    return out;
  }

  Tensor integers(Shape shape, std::int64_t below) {
    Tensor out = device_->tensor(shape, MemoryKind::data, DType::i32);
    std::vector<std::int32_t> values(static_cast<std::size_t>(out.count()));
    std::uint64_t i = 0;
    for (auto& value : values)
      value = static_cast<std::int32_t>(random_bits(1, Stream::synthetic_data, i++) %
                                        static_cast<std::uint64_t>(below));
    device_->write(out, std::as_bytes(std::span(values)));
    return out;
  }

  /// Memory for bytes that one operation writes and another reads.
  Tensor bytes(Shape shape) { return device_->tensor(shape, MemoryKind::activation, DType::u8); }

  /// The median time of one run, in seconds.
  double seconds(const std::function<void()>& run) {
    constexpr int warm_up = 3, repeats = 20;
    for (int i = 0; i < warm_up; ++i) run();
    std::vector<Mark> marks = {device_->mark()};
    for (int i = 0; i < repeats; ++i) {
      run();
      marks.push_back(device_->mark());
    }
    std::vector<double> times;
    for (int i = 0; i < repeats; ++i)
      times.push_back(device_->seconds(marks[static_cast<std::size_t>(i)],
                                       marks[static_cast<std::size_t>(i) + 1]));
    std::sort(times.begin(), times.end());
    return times[repeats / 2];
  }

  template <class Op>
  void time(const std::string& name, DType dtype, const Op& op, const Kernel<Op>& kernel,
            bool product = false) {
    const double median = seconds([&] { kernel(op); });
    figures_.push_back({name, std::string(name_of(dtype)), median, cost(op), product});
  }

  const std::vector<Figure>& figures() const { return figures_; }

 private:
  std::unique_ptr<Device> device_;
  std::vector<Figure> figures_;
};

using Measurement = std::function<void(Bench&)>;
/// Measurements of kernels at the shapes of a ResNet-50 on `images` images. With `small` the shapes
/// are small, to try the program out.
std::vector<Measurement> convolutions_of_resnet(DType dtype, std::int64_t images, bool small);
std::vector<Measurement> norms_and_pools_of_resnet(DType dtype, std::int64_t images, bool small);

}  // namespace ringside
