#include "experiments/tools/bench/codes_bench.h"

#include <algorithm>
#include <cmath>

#include "core/compress/compressed_bucket.h"
#include "core/device/cpu/cpu_device.h"
#include "core/device/write_values.h"
#include "core/num/random.h"
#include "experiments/runner/report/text_table.h"

namespace ringside::tools::bench {
namespace {

constexpr int steps_together = 20;
constexpr std::uint64_t codes_seed = 7;

double median_of(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

/// The gradients of all workers, step by step, and buckets for them.
class Sums {
 public:
  Sums(const CodesBench& bench, const std::string& name)
      : bench_(bench),
        device_(make_cpu_device(1)),
        count_(bench.rows * bench.columns),
        total_(fresh()) {
    CompressionOptions options = bench.options;
    options.compressor = name;
    for (int w = 0; w < bench.workers; ++w) {
      gradients_.push_back(fresh());
      buckets_.emplace_back(CompressorContext{.device = *device_,
                                              .options = options,
                                              .pieces = {{0, {bench.rows, bench.columns}, 0}},
                                              .worker = w,
                                              .workers = bench.workers,
                                              .seed = codes_seed});
    }
  }

  /// Sums the gradients of a step; returns the seconds of one worker's encoding and decoding.
  std::pair<double, double> step(int number) {
    for (int w = 0; w < bench_.workers; ++w) draw(w, number);
    double encoding = 0, decoding = 0;
    for (std::size_t w = 0; w < buckets_.size(); ++w)
      encoding += seconds([&] { buckets_[w].begin(gradients_[w]); });
    for (int round = 0; round < buckets_[0].rounds(); ++round) {
      const Compressor::Form form = buckets_[0].form(round);
      std::vector<Tensor> messages;
      for (CompressedBucket& bucket : buckets_) {
        if (form.count == 0) break;
        messages.push_back(device_->tensor({form.count}, MemoryKind::communication, form.dtype));
        encoding += seconds([&] { bucket.give(round, messages.back()); });
      }
      if (form.count > 0 && buckets_[0].move() == Compressor::Move::sum) {
        for (std::size_t w = 1; w < messages.size(); ++w)
          device_->kernels().add({.in = messages[w], .out = messages[0]});
        messages.resize(1);
      }
      for (CompressedBucket& bucket : buckets_)
        decoding += seconds([&] { bucket.take(round, messages, total_); });
    }
    return {encoding / bench_.workers, decoding / bench_.workers};
  }

  double copy() {
    const Tensor& in = gradients_[0];
    return seconds([&] { device_->kernels().copy({.in = in, .out = total_}); });
  }

  /// Adds the exact sum of this step and what the workers got to running sums.
  void compare(std::vector<double>& exact, std::vector<double>& got) const {
    exact.resize(static_cast<std::size_t>(count_));
    got.resize(static_cast<std::size_t>(count_));
    for (std::size_t i = 0; i < exact.size(); ++i) {
      for (const Tensor& gradient : gradients_) exact[i] += double{gradient.data<float>()[i]};
      got[i] += double{total_.data<float>()[i]};
    }
  }

  double bytes() const { return 4.0 * static_cast<double>(count_); }

 private:
  Tensor fresh() const { return device_->tensor({count_}, MemoryKind::gradient); }

  /// Half of the variance is common to all workers and steps.
  void draw(int worker, int step) {
    float* values = gradients_[static_cast<std::size_t>(worker)].data<float>();
    const auto seed = static_cast<std::uint64_t>(step * bench_.workers + worker + 1);
    for (std::int64_t i = 0; i < count_; ++i) {
      const auto at = static_cast<std::uint64_t>(i);
      values[i] =
          static_cast<float>(std::sqrt(0.5) * (random_normal(0, Stream::synthetic_data, at) +
                                               random_normal(seed, Stream::synthetic_data, at)));
    }
  }

  template <class Work>
  double seconds(const Work& work) const {
    const double begin = device_->clock().now();
    work();
    return device_->clock().now() - begin;
  }

  const CodesBench& bench_;
  std::unique_ptr<Device> device_;
  std::int64_t count_;
  std::vector<Tensor> gradients_;
  std::vector<CompressedBucket> buckets_;
  Tensor total_;
};

double distance(const std::vector<double>& exact, const std::vector<double>& got) {
  double difference = 0, norm = 0;
  for (std::size_t i = 0; i < exact.size(); ++i) {
    difference += (got[i] - exact[i]) * (got[i] - exact[i]);
    norm += exact[i] * exact[i];
  }
  return std::sqrt(difference / norm);
}

CodesRow row_of(const CodesBench& bench, const std::string& name) {
  const CompressorInfo& info = find_compressor(name);
  CompressionOptions options = bench.options;
  options.compressor = name;
  CodesRow row{.name = name, .remembers = remembers(options)};
  const Shape matrix{bench.rows, bench.columns};
  row.bits = 8 * info.bytes(options, matrix) / static_cast<double>(matrix.count());
  Sums sums(bench, name);
  std::vector<double> exact, got, encoding, decoding, copying;
  for (int step = 0; step < std::max(bench.rounds, steps_together); ++step) {
    const auto [encoded, decoded] = sums.step(step);
    if (step < steps_together) sums.compare(exact, got);
    if (step == 0) row.error = distance(exact, got);
    if (step + 1 == steps_together) row.error_of_20 = distance(exact, got);
    if (step >= bench.rounds) continue;
    encoding.push_back(encoded);
    decoding.push_back(decoded);
    copying.push_back(sums.copy());
  }
  if (!info.estimates_sum) row.error = -1;
  if (!info.estimates_sum || info.has_own_memory) row.error_of_20 = -1;
  row.encode_gbs = sums.bytes() / median_of(encoding) / 1e9;
  row.decode_gbs = sums.bytes() / median_of(decoding) / 1e9;
  row.copy_gbs = sums.bytes() / median_of(copying) / 1e9;
  return row;
}

std::string error_cell(double error) { return error < 0 ? "-" : fmt::format("{:.3f}", error); }

}  // namespace

std::vector<CodesRow> bench_codes(const CodesBench& bench) {
  for (const std::string& name : bench.names) find_compressor(name);
  std::vector<CodesRow> out;
  for (const std::string& name : bench.names)
    if (!bench.interrupted()) out.push_back(row_of(bench, name));
  return out;
}

std::string codes_text(const CodesBench& bench, const std::vector<CodesRow>& rows) {
  std::vector<std::vector<std::string>> lines = {{"compressor", "memory", "bits", "times fewer",
                                                  "error", "error of 20", "encode GB/s",
                                                  "of a copy", "decode GB/s", "of a copy"}};
  for (const CodesRow& row : rows)
    lines.push_back({row.name, row.remembers ? "residual" : "-", fmt::format("{:.2f}", row.bits),
                     fmt::format("{:.1f}", 32 / row.bits), error_cell(row.error),
                     error_cell(row.error_of_20), fmt::format("{:.2f}", row.encode_gbs),
                     fmt::format("{:.2f}", row.encode_gbs / row.copy_gbs),
                     fmt::format("{:.2f}", row.decode_gbs),
                     fmt::format("{:.2f}", row.decode_gbs / row.copy_gbs)});
  return fmt::format("A matrix of {} x {} fp32 elements, summed over {} workers, on one core\n",
                     bench.rows, bench.columns, bench.workers) +
         runner::text_table(lines);
}

}  // namespace ringside::tools::bench
