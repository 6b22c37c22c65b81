// Speed of the CPU's kernels beside what this machine can do: products against the peak of its
// fused multiply-adds, the rest against memcpy, both measured in the same run.
//
//     kernels_bench [THREADS] [--benchmark_filter=...]
//
// gflops: 1e9 floating-point operations a second in the fastest run. They are counted by the
// definition of the operation, so a kernel that needs fewer (Winograd's convolutions) may exceed
// the peak. gbytes: the 1e9 bytes a second that must be read and written, in the fastest run.
// of_peak and of_copy: gflops and gbytes as shares of what this machine can do. gpt_step:
// `products` is the share of the step's time that the products of linear layers and attention need
// at least.
//
// Multiply-adds bound a GPT's step on one thread. About nine tenths of its time go into products.
// The products of linear layers run at nine tenths of the peak, so they can hardly become faster.
// The rest of the step's time goes into attention's softmax, the copies that put a head together,
// gelu, and kernels that read and write more than a cache holds (norms, AdamW, additions).
#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "tests/bench/kernels_bench.h"

namespace ringside::bench {
namespace {

using Vector = float __attribute__((vector_size(RINGSIDE_VECTOR_BYTES)));

/// Computes fused multiply-adds of registers, with enough of them under way to hide their latency.
/// Returns the number of floating-point operations.
double multiply_adds(std::int64_t times) {
  constexpr int chains = 12;
  Vector sums[chains], factor = Vector{} + 0.999999f, term = Vector{} + 1e-6f;
  for (auto& sum : sums) sum = Vector{} + 1.0f;
  benchmark::DoNotOptimize(factor);  // hides the values from the compiler
  benchmark::DoNotOptimize(term);
  benchmark::DoNotOptimize(sums);
  for (std::int64_t i = 0; i < times; ++i) {
#pragma GCC unroll 12
    for (int c = 0; c < chains; ++c) sums[c] = sums[c] * factor + term;
  }
  benchmark::DoNotOptimize(sums);
  return 2.0 * chains * (sizeof(Vector) / sizeof(float)) * static_cast<double>(times);
}

/// Multiply-adds of one of attention's two products, for all samples and heads.
double attention_products(bool causal) {
  const double pairs = causal ? 0.5 * positions * (positions + 1) : 1.0 * positions * positions;
  return 1.0 * samples * heads * depth * pairs;
}

class Bench : public Operands {
 public:
  explicit Bench(int threads) : Operands(threads), threads_(threads) {}

  /// Seconds of the fastest of `tries` runs.
  double fastest(int tries, const std::function<void()>& run) {
    double best = 1e9;
    for (int i = 0; i < tries; ++i) {
      const double begin = device().clock().now();
      run();
      best = std::min(best, device().clock().now() - begin);
    }
    return best;
  }

  /// What the machine can do: flop/s of multiply-adds on all threads, bytes/s of a large copy.
  void measure_machine() {
    double operations = 0;
    const double seconds = fastest(50, [&] { operations = multiply_adds(200000); });
    flops_ = threads_ * operations / seconds;
    const Tensor from = random({64 << 20 >> 2}), to = random({64 << 20 >> 2});
    bytes_ = 2.0 * 67108864 / fastest(9, [&] { kernels().copy({.in = from, .out = to}); });
    std::printf("this machine: multiply-adds %.0f GFLOP/s, copy %.1f GB/s (read and written)\n",
                flops_ * 1e-9, bytes_ * 1e-9);
  }
  double peak() const { return flops_; }

  void products(const std::string& name, double operations, std::function<void()> run) {
    add(name, "gflops", "of_peak", operations, flops_, std::move(run));
  }
  void memory(const std::string& name, std::int64_t floats, std::function<void()> run) {
    add(name, "gbytes", "of_copy", 4.0 * static_cast<double>(floats), bytes_, std::move(run));
  }

 private:
  void add(const std::string& name, const char* unit, const char* share, double work, double best,
           std::function<void()> run) {
    const auto body = [=, this](benchmark::State& state) {
      double seconds = 1e9;
      for (auto _ : state) seconds = std::min(seconds, fastest(1, run));
      state.counters[unit] = work / seconds * 1e-9;
      state.counters[share] = work / seconds / best;
    };
    benchmark::RegisterBenchmark(name.c_str(), body)->Unit(benchmark::kMicrosecond)->UseRealTime();
  }

  int threads_;
  double flops_ = 1, bytes_ = 1;
};

/// Adds the products of a GPT in the dtype of the operands. Their names end with `of`.
void add_products(Bench& b, const std::string& of) {
  const Kernels& k = b.kernels();
  struct {
    const char* name;
    std::int64_t in, out;
    Activation activation;
  } linears[] = {{"qkv", width, 3 * width, Activation::none},
                 {"project", width, width, Activation::none},
                 {"up_gelu", width, 4 * width, Activation::gelu},
                 {"down", 4 * width, width, Activation::none}};
  for (const auto& l : linears) {
    const double operations = 2.0 * rows * static_cast<double>(l.in * l.out);
    const std::string name = fmt::format("/{}{}", l.name, of);
    b.products("linear_forward" + name, operations,
               [op = b.linear(l.in, l.out, l.activation), &k] { k.linear_forward(op); });
    b.products("linear_backward" + name, 2 * operations,
               [op = b.linear_backward(l.in, l.out, l.activation), &k] { k.linear_backward(op); });
  }
  for (const bool causal : {true, false}) {
    const std::string name = fmt::format("/{}{}", causal ? "causal" : "full", of);
    b.products("attention_forward" + name, 4 * attention_products(causal),
               [op = b.attention(causal), &k] { k.attention_forward(op); });
    b.products("attention_backward" + name, 10 * attention_products(causal),
               [op = b.attention_backward(causal), &k] { k.attention_backward(op); });
  }
}

void add_images(Bench& b) {
  const Kernels& k = b.kernels();
  for (const auto& s : convolutions) {
    const std::string name = fmt::format("/{}", s.name);
    b.products("convolution_forward" + name, s.operations(),
               [op = b.convolution(s), &k] { k.convolution_forward(op); });
    b.products("convolution_backward" + name, 2 * s.operations(),
               [op = b.convolution_backward(s), &k] { k.convolution_backward(op); });
  }
  for (const auto& [image, channels] : {std::pair{32, 64}, {16, 128}, {8, 256}, {4, 512}}) {
    const std::int64_t pixels = images * image * image, values = pixels * channels;
    const std::string name = fmt::format("/{}", channels);
    const Tensor x = b.random({pixels, channels}), y = b.random({pixels, channels}),
                 dy = b.random({pixels, channels}), dx = b.random({pixels, channels});
    const Tensor mean = b.statistic({channels}), variance = b.statistic({channels}),
                 weight = b.random({channels}), bias = b.random({channels}),
                 sums = b.statistic({2, channels});
    k.batch_norm_statistics({.x = x, .mean = mean, .variance = variance});
    b.memory("batch_norm_forward" + name, 3 * values, [=, &k] {
      k.batch_norm_statistics({.x = x, .mean = mean, .variance = variance});
      k.batch_norm_forward({.x = x,
                            .mean = mean,
                            .variance = variance,
                            .weight = weight,
                            .bias = bias,
                            .relu = true,
                            .y = y});
    });
    b.memory("batch_norm_backward" + name, 7 * values, [=, &k] {
      k.batch_norm_reduce({.dy = dy,
                           .x = x,
                           .y = y,
                           .mean = mean,
                           .variance = variance,
                           .relu = true,
                           .sums = sums});
      k.batch_norm_backward({.dy = dy,
                             .x = x,
                             .y = y,
                             .mean = mean,
                             .variance = variance,
                             .weight = weight,
                             .relu = true,
                             .sums = sums,
                             .rows = pixels,
                             .dx = dx});
    });
  }
}

void add_others(Bench& b) {
  const Kernels& k = b.kernels();
  const std::int64_t large = 1 << 24;
  b.memory("add/16M", 3 * large, [in = b.random({large}), out = b.random({large}), &k] {
    k.add({in, out});
  });
  b.memory("fill/16M", large, [out = b.random({large}), &k] { k.fill({out, 1}); });
  b.memory("adamw/16M", 7 * large, [op = b.adamw(large), &k] { k.adamw(op); });
  b.memory("sgd/16M", 5 * large, [op = b.sgd(large), &k] { k.sgd(op); });
  b.memory("layer_norm_forward", 4 * rows * width,
           [op = b.layer_norm(), &k] { k.layer_norm_forward(op); });
  b.memory("layer_norm_backward", 4 * rows * width,
           [op = b.layer_norm_backward(), &k] { k.layer_norm_backward(op); });
  b.memory("embedding_forward", 3 * rows * width,
           [op = b.embedding(), &k] { k.embedding_forward(op); });
  b.memory("embedding_backward", 3 * rows * width,
           [op = b.embedding_backward(), &k] { k.embedding_backward(op); });
  b.memory("cross_entropy/256", 2 * rows * 256,
           [op = b.cross_entropy(256), &k] { k.cross_entropy(op); });
  b.memory("cross_entropy/8192", 2 * rows * 8192,
           [op = b.cross_entropy(8192), &k] { k.cross_entropy(op); });
}

/// Codes of gradients. The least bytes of an operation count, of which top-k reads its input once.
void add_codes(Bench& b) {
  const Kernels& k = b.kernels();
  const std::int64_t large = 1 << 24, block = 256, selected = large / 100;
  const auto made = [&](std::int64_t count, DType dtype) {
    return b.device().tensor({count}, MemoryKind::communication, dtype);
  };
  const Tensor in = b.statistic({large}), out = b.statistic({large});
  const Tensor indices = made(selected, DType::i32), values = made(selected, DType::f32);
  k.select_top_k({.in = in, .indices = indices, .values = values});
  b.memory("select_top_k/16M_1_percent", large + 2 * selected,
           [=, &k] { k.select_top_k({.in = in, .indices = indices, .values = values}); });
  b.memory("add_elements/160K_of_16M", 4 * selected, [=, &k] {
    k.add_elements({.in = values, .indices = indices, .out = out, .scale = -1});
  });
  const Tensor signs = made(large / 8, DType::u8), magnitude = made(1, DType::f32);
  b.memory("pack_signs/16M", large + large / 32,
           [=, &k] { k.pack_signs({.in = in, .signs = signs, .magnitude = magnitude}); });
  b.memory("add_signs/16M", 2 * large + large / 32,
           [=, &k] { k.add_signs({.signs = {signs}, .magnitudes = {magnitude}, .out = out}); });
  const Tensor codes = made(large, DType::u8), norms = made(large / block, DType::f32);
  b.memory("quantise/16M", large + large / 4 + large / block,
           [=, &k] { k.quantise({.in = in, .codes = codes, .norms = norms, .block = block}); });
  b.memory("add_quantised/16M", 2 * large + large / 4 + large / block, [=, &k] {
    k.add_quantised({.codes = {codes}, .norms = {norms}, .out = out, .block = block});
  });
  b.memory("quantise/16M_to_4_bits", large + large / 8 + large / block, [=, &k] {
    k.quantise({.in = in, .codes = codes, .norms = norms, .block = block, .bits = 4});
  });
  b.memory("add_quantised/16M_of_4_bits", 2 * large + large / 8 + large / block, [=, &k] {
    k.add_quantised({.codes = {codes}, .norms = {norms}, .out = out, .block = block, .bits = 4});
  });
}

/// Adds a benchmark of all kernels of one training step. It also measures the products of the step
/// alone, whose share of the step's time it reports.
void add_step(Bench& b) {
  const Kernels& k = b.kernels();
  std::vector<std::function<void()>> layer, once;
  const auto add_linear = [&](auto& list, std::int64_t in, std::int64_t out, Activation a) {
    list.push_back([op = b.linear(in, out, a), &k] { k.linear_forward(op); });
    list.push_back([op = b.linear_backward(in, out, a), &k] { k.linear_backward(op); });
  };
  add_linear(layer, width, 3 * width, Activation::none);
  add_linear(layer, width, width, Activation::none);
  add_linear(layer, width, 4 * width, Activation::gelu);
  add_linear(layer, 4 * width, width, Activation::none);
  layer.push_back([op = b.attention(true), &k] { k.attention_forward(op); });
  layer.push_back([op = b.attention_backward(true), &k] { k.attention_backward(op); });
  for (int i = 0; i < 2; ++i) {
    layer.push_back([op = b.layer_norm(), &k] { k.layer_norm_forward(op); });
    layer.push_back([op = b.layer_norm_backward(), &k] { k.layer_norm_backward(op); });
  }
  add_linear(once, width, vocabulary, Activation::none);
  once.push_back([op = b.embedding(), &k] { k.embedding_forward(op); });
  once.push_back([op = b.embedding_backward(), &k] { k.embedding_backward(op); });
  once.push_back([op = b.cross_entropy(vocabulary), &k] { k.cross_entropy(op); });
  once.push_back([op = b.adamw(12 * width * width * layers), &k] { k.adamw(op); });

  // The products of a step alone. A linear layer has three of equal size: one in forward, two in
  // backward. The products of attention are not measured but taken to run at the peak.
  struct Product {
    LinearForward op;
    double times;
  };
  std::vector<Product> products;
  double operations = 14.0 * layers * attention_products(/*causal=*/true);
  const double attention_seconds = operations / b.peak();
  const auto bare = [&](std::int64_t in, std::int64_t out, double times) {
    operations += times * 2.0 * static_cast<double>(rows * in * out);
    products.push_back(
        {{.x = b.random({rows, in}), .weight = b.random({out, in}), .y = b.random({rows, out})},
         times});
  };
  bare(width, 3 * width, 3 * layers);
  bare(width, width, 3 * layers);
  bare(width, 4 * width, 3 * layers);
  bare(4 * width, width, 3 * layers);
  bare(width, vocabulary, 3);

  benchmark::RegisterBenchmark(
      "gpt_step",
      [=, &b](benchmark::State& state) {
        const auto step = [&] {
          for (int i = 0; i < layers; ++i)
            for (const auto& run : layer) run();
          for (const auto& run : once) run();
        };
        double seconds = 1e9;
        for (auto _ : state) seconds = std::min(seconds, b.fastest(1, step));
        double bare_seconds = attention_seconds;
        for (const auto& p : products)
          bare_seconds += p.times * b.fastest(5, [&] { b.kernels().linear_forward(p.op); });
        state.counters["tokens"] = static_cast<double>(rows) / seconds;
        state.counters["gflops"] = operations / seconds * 1e-9;
        state.counters["of_peak"] = operations / seconds / b.peak();
        state.counters["products"] = bare_seconds / seconds;
      })
      ->Unit(benchmark::kMillisecond)
      ->Iterations(5)
      ->UseRealTime();
}

}  // namespace
}  // namespace ringside::bench

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  using namespace ringside;
  bench::Bench bench(argc > 1 ? std::max(1, std::atoi(argv[1])) : 1);
  bench.measure_machine();
  bench::add_products(bench, "");
  bench::add_others(bench);
  bench::add_codes(bench);
  bench::add_images(bench);
  bench.set_dtype(DType::bf16);
  bench::add_products(bench, "/bf16");
  bench.set_dtype(DType::f32);
  bench::add_step(bench);
  benchmark::RunSpecifiedBenchmarks();
  benchmark::ClearRegisteredBenchmarks();  // their tensors must not outlive the device
  benchmark::Shutdown();
}
