// Speed of a GPU's kernels beside what it can do, measured in the same run: matrix products of
// 8192 x 8192 x 8192, and a copy of memory. Shapes of the rest are those of a GPT-2 (width 768, 12
// heads, context 1024, vocabulary 50304). Bytes and operations are those of core/device/cost.h.
//
//     gpu_bench [FILE [DIVISOR]]
//
// FILE gets the figures as JSON. DIVISOR makes everything smaller, to try the program out. Medians
// of 20 runs, timed by marks in the device's queue. Ends with 2 where there is no GPU.
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/base/random.h"
#include "core/device/cost.h"
#include "core/device/cuda/cuda.h"

namespace ringside {
namespace {

using nlohmann::ordered_json;

constexpr std::int64_t width = 768, heads = 12, vocabulary = 50304;
constexpr int warm_up = 3, repeats = 20;

struct Figure {
  std::string name;
  std::string dtype;
  double seconds = 0;  // of the median run
  OpCost cost;
  bool product = false;  // bounded by matrix products, not by memory
  double rate() const { return (product ? cost.operations : cost.bytes) / seconds; }
};

/// Operands of kernels on one device, and their times.
class Bench {
 public:
  explicit Bench(bool tf32) : device_(cuda::make_cuda_device({.tf32 = tf32})) {}

  const Kernels& kernels() const { return device_->kernels(); }

  /// Random values of mean 0, the same every so many elements: speed does not ask for more.
  Tensor random(Shape shape, DType dtype, float scale = 1) {
    Tensor out = device_->tensor(shape, MemoryKind::activation, dtype);
    constexpr std::int64_t period = 1'000'003;  // a prime fits no extent
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

  /// Median seconds of one run.
  double seconds(const std::function<void()>& run) {
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

void add_product(Bench& b, DType dtype, std::int64_t n) {
  b.time<LinearForward>("product", dtype,
                        {.x = b.random({n, n}, dtype),
                         .weight = b.random({n, n}, dtype),
                         .y = b.random({n, n}, dtype)},
                        b.kernels().linear_forward, true);
}

void add_copy(Bench& b, std::int64_t bytes) {
  b.time<Copy>("copy", DType::f32,
               {.in = b.random({bytes / 4}, DType::f32), .out = b.random({bytes / 4}, DType::f32)},
               b.kernels().copy);
}

void add_adamw(Bench& b, DType dtype, std::int64_t count) {
  b.time<AdamW>("adamw", dtype,
                {.parameters = b.random({count}, dtype),
                 .gradients = b.random({count}, dtype),
                 .master = dtype == DType::f32 ? Tensor() : b.random({count}, DType::f32),
                 .first_moment = b.random({count}, DType::f32),
                 .second_moment = b.random({count}, DType::f32, 0),
                 .lr = 1e-4f,
                 .beta1 = 0.9f,
                 .beta2 = 0.95f,
                 .epsilon = 1e-8f,
                 .weight_decay = 0.1f,
                 .step = 10},
                b.kernels().adamw);
}

void add_layer_norm(Bench& b, DType dtype, std::int64_t rows) {
  const auto wide = [&] { return b.random({rows, width}, dtype); };
  const auto narrow = [&] { return b.random({width}, dtype); };
  const LayerNormForward forward{.x = wide(),
                                 .residual = wide(),
                                 .weight = narrow(),
                                 .bias = narrow(),
                                 .sum = wide(),
                                 .y = wide(),
                                 .mean = b.random({rows}, DType::f32),
                                 .rstd = b.random({rows}, DType::f32)};
  b.time("layer norm forward", dtype, forward, b.kernels().layer_norm_forward);
  const Tensor dx = wide();
  b.time<LayerNormBackward>("layer norm backward", dtype,
                            {.dy = forward.y,
                             .x = forward.sum,
                             .weight = forward.weight,
                             .mean = forward.mean,
                             .rstd = forward.rstd,
                             .dresidual = dx,
                             .dx = dx,
                             .dweight = narrow(),
                             .dbias = narrow()},
                            b.kernels().layer_norm_backward);
}

void add_cross_entropy(Bench& b, DType dtype, std::int64_t rows, std::int64_t classes) {
  b.time<CrossEntropy>(fmt::format("cross-entropy {}", rows), dtype,
                       {.logits = b.random({rows, classes}, dtype, 8),
                        .targets = b.integers({rows}, classes),
                        .losses = b.random({rows}, DType::f32),
                        .dlogits = b.random({rows, classes}, dtype)},
                       b.kernels().cross_entropy);
}

void add_attention(Bench& b, DType dtype, std::int64_t samples, std::int64_t context) {
  const std::int64_t depth = width / heads;
  const auto like_y = [&] { return b.random({samples, context, heads, depth}, dtype, 2); };
  const AttentionForward forward{.qkv = b.random({samples, context, 3, heads, depth}, dtype, 2),
                                 .y = like_y(),
                                 .statistics = b.random({samples, heads, context}, DType::f32)};
  b.time("attention forward", dtype, forward, b.kernels().attention_forward, true);
  b.time<AttentionBackward>("attention backward", dtype,
                            {.dy = like_y(),
                             .qkv = forward.qkv,
                             .y = forward.y,
                             .statistics = forward.statistics,
                             .dqkv = b.random({samples, context, 3, heads, depth}, dtype)},
                            b.kernels().attention_backward, true);
}

/// What one device with all of its memory to itself measures: memory is given back in between.
std::vector<Figure> measure(bool tf32, const std::vector<std::function<void(Bench&)>>& list) {
  std::vector<Figure> out;
  Bench bench(tf32);
  for (const auto& add : list) add(bench);
  for (Figure figure : bench.figures()) {
    if (tf32) figure.dtype = "tf32";
    out.push_back(std::move(figure));
  }
  return out;
}

std::vector<Figure> measure_all(std::int64_t divisor) {
  const auto smaller = [&](std::int64_t n) { return std::max<std::int64_t>(16, n / divisor); };
  const std::int64_t side = smaller(8192), rows = smaller(131072), classes = smaller(vocabulary),
                     parameters = smaller(124'475'904);
  auto figures = measure(
      false, {[&](Bench& b) { add_product(b, DType::bf16, side); },
              [&](Bench& b) { add_product(b, DType::f32, side); },
              [&](Bench& b) { add_copy(b, smaller(std::int64_t{2} << 30)); },
              [&](Bench& b) { add_adamw(b, DType::f32, parameters); },
              [&](Bench& b) { add_adamw(b, DType::bf16, parameters); },
              [&](Bench& b) { add_layer_norm(b, DType::f32, rows); },
              [&](Bench& b) { add_layer_norm(b, DType::bf16, rows); },
              [&](Bench& b) { add_cross_entropy(b, DType::bf16, rows / 16, classes); },
              [&](Bench& b) { add_cross_entropy(b, DType::bf16, rows / 4, classes); },
              [&](Bench& b) { add_attention(b, DType::bf16, smaller(512) / 16, smaller(1024)); }});
  for (Figure& one : measure(true, {[&](Bench& b) { add_product(b, DType::f32, side); }}))
    figures.push_back(std::move(one));
  return figures;
}

/// The ceiling of a figure: the product of its dtype, or the copy.
double ceiling(const Figure& figure, const std::vector<Figure>& all) {
  for (const Figure& one : all)
    if (figure.product ? one.name == "product" && one.dtype == figure.dtype : one.name == "copy")
      return one.rate();
  throw Error("gpu_bench: no ceiling for {} in {}", figure.name, figure.dtype);
}

void report(const std::vector<Figure>& figures, const char* file) {
  ordered_json out = ordered_json::array();
  fmt::print("{:<24} {:<5} {:>10} {:>14} {:>8}\n", "kernel", "dtype", "ms", "achieved", "share");
  for (const Figure& one : figures) {
    const double share = one.rate() / ceiling(one, figures);
    fmt::print("{:<24} {:<5} {:>10.4f} {:>8.1f} {} {:>7.1f}%\n", one.name, one.dtype,
               1e3 * one.seconds, 1e-9 * one.rate() / (one.product ? 1e3 : 1),
               one.product ? "TFLOP/s" : "GB/s   ", 100 * share);
    out.push_back({{"kernel", one.name},
                   {"dtype", one.dtype},
                   {"ms", 1e3 * one.seconds},
                   {"operations", one.cost.operations},
                   {"bytes", one.cost.bytes},
                   {"bound", one.product ? "product" : "copy"},
                   {"rate", one.rate()},
                   {"share", share}});
  }
  if (!file) return;
  std::ofstream stream(file);
  stream << out.dump(2) << "\n";
  if (!stream.flush()) throw Error("gpu_bench: {} cannot be written", file);
}

}  // namespace
}  // namespace ringside

int main(int argc, char** argv) {
  using namespace ringside;
  const std::int64_t divisor = argc > 2 ? std::max(1, std::atoi(argv[2])) : 1;
  if (const cuda::Machine machine = cuda::look_at_machine(); !machine.cause.empty()) {
    fmt::print(stderr, "gpu_bench: {}\n", machine.cause);
    return 2;
  }
  try {
    report(measure_all(divisor), argc > 1 ? argv[1] : nullptr);
    return 0;
  } catch (const std::exception& error) {
    fmt::print(stderr, "gpu_bench: {}\n", error.what());
    return 1;
  }
}
