// Measures the speed of a GPU's kernels, and compares it with what the GPU reaches in the same run
// at matrix products of 8192 x 8192 x 8192 and at a copy of memory. The other kernels run on the
// shapes of a GPT-2 (width 768, 12 heads, context 1024, vocabulary 50304) and of a ResNet-50
// (224 x 224, 128 images). core/device/cost.h says how many bytes and operations a kernel has.
//
//     gpu_bench [FILE [DIVISOR]]
//
// FILE gets the figures as JSON. A DIVISOR above 1 makes the operands smaller, to try the program
// out. Times are medians of 20 runs, taken by marks in the device's queue. The program exits with
// status 2 if no GPU can be used.
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "tests/bench/gpu_bench.h"

namespace ringside {
namespace {

using nlohmann::ordered_json;

constexpr std::int64_t width = 768, heads = 12, vocabulary = 50304;

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
  const AttentionForward forward{.qkv = b.random({samples, context, 3 * heads, depth}, dtype, 2),
                                 .y = like_y(),
                                 .statistics = b.random({samples, heads, context}, DType::f32)};
  b.time("attention forward", dtype, forward, b.kernels().attention_forward, true);
  b.time<AttentionBackward>("attention backward", dtype,
                            {.dy = like_y(),
                             .qkv = forward.qkv,
                             .y = forward.y,
                             .statistics = forward.statistics,
                             .dqkv = b.random({samples, context, 3 * heads, depth}, dtype)},
                            b.kernels().attention_backward, true);
}

/// Takes the measurements in `list` on a device made for them. The device gives its memory back at
/// the end, so that the next device can use the whole memory of the GPU.
std::vector<Figure> measure(bool tf32, const std::vector<Measurement>& list) {
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
  const auto keep = [&](std::vector<Figure> more) {
    for (Figure& one : more) figures.push_back(std::move(one));
  };
  const std::int64_t images = std::max<std::int64_t>(1, 128 / divisor);
  const bool small = divisor > 1;
  keep(measure(false, convolutions_of_resnet(DType::bf16, images, small)));
  keep(measure(false, norms_and_pools_of_resnet(DType::bf16, images, small)));
  keep(measure(true, {[&](Bench& b) { add_product(b, DType::f32, side); }}));
  keep(measure(true, convolutions_of_resnet(DType::f32, images, small)));
  return figures;
}

/// The rate that a figure is compared with: that of the large matrix product of the same dtype, or
/// that of the copy.
double ceiling(const Figure& figure, const std::vector<Figure>& all) {
  for (const Figure& one : all)
    if (figure.product ? one.name == "product" && one.dtype == figure.dtype : one.name == "copy")
      return one.rate();
  throw Error("gpu_bench: no ceiling for {} in {}", figure.name, figure.dtype);
}

void report(const std::vector<Figure>& figures, const char* file) {
  ordered_json out = ordered_json::array();
  fmt::print("{:<32} {:<5} {:>10} {:>14} {:>8}\n", "kernel", "dtype", "ms", "achieved", "share");
  for (const Figure& one : figures) {
    const double share = one.rate() / ceiling(one, figures);
    fmt::print("{:<32} {:<5} {:>10.4f} {:>8.1f} {} {:>7.1f}%\n", one.name, one.dtype,
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
