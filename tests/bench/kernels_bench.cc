// Speed of the CPU's kernels beside what this machine can do: matrix products against the best
// product measured in the same run, the rest against memcpy. Shapes are those of a GPT of width
// 384, 6 heads, context 256, batch 8 (M = 2048 rows).
//
//     kernels_bench [THREADS] [--benchmark_filter=...]
//
// gflops: floating-point operations a second; gbytes: bytes that must be read and written, a
// second; of_best: the part of the machine's own figure; share (gpt_step only): part of the time
// that goes to the products of linear layers and attention.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

#include "core/base/random.h"
#include "core/device/cpu/cpu_device.h"

namespace ringside {
namespace {

constexpr std::int64_t samples = 8, positions = 256, heads = 6, depth = 64, width = 384,
                       vocabulary = 256, layers = 6, rows = samples * positions;

/// Operands of every kernel, at the shapes of the model.
class Bench {
 public:
  explicit Bench(int threads) : device_(make_cpu_device(threads)) {}

  Device& device() { return *device_; }
  const Kernels& kernels() const { return device_->kernels(); }

  Tensor random(Shape shape, float scale = 1) {
    Tensor out = device_->tensor(shape, MemoryKind::activation);
    const auto values = out.span<float>();
    constexpr std::size_t period = 4099;  // speed does not ask for more; a prime fits no extent
    for (std::size_t i = 0; i < values.size(); ++i)
      values[i] =
          i < period
              ? scale * static_cast<float>(random_uniform(1, Stream::synthetic_data, i) - 0.5)
              : values[i - period];
    return out;
  }
  Tensor integers(Shape shape, std::int64_t below) {
    Tensor out = device_->tensor(shape, MemoryKind::data, DType::i32);
    std::uint64_t i = 0;
    for (auto& value : out.span<std::int32_t>())
      value = static_cast<std::int32_t>(random_bits(1, Stream::synthetic_data, i++) %
                                        static_cast<std::uint64_t>(below));
    return out;
  }

  LinearForward linear(std::int64_t in, std::int64_t out, Activation activation) {
    LinearForward op{.x = random({rows, in}),
                     .weight = random({out, in}, 0.1f),
                     .bias = random({out}),
                     .activation = activation,
                     .y = random({rows, out})};
    if (activation != Activation::none) op.pre = random({rows, out});
    return op;
  }
  LinearBackward linear_backward(std::int64_t in, std::int64_t out, Activation activation) {
    LinearBackward op{.dy = random({rows, out}, 1e-3f),
                      .x = random({rows, in}),
                      .weight = random({out, in}, 0.1f),
                      .activation = activation,
                      .dx = random({rows, in}),
                      .dweight = random({out, in}),
                      .dbias = random({out})};
    if (activation != Activation::none) op.pre = random({rows, out}, 4);
    return op;
  }
  AttentionForward attention(bool causal) {
    return {.qkv = random({samples, positions, 3, heads, depth}, 2),
            .causal = causal,
            .y = random({samples, positions, heads, depth}),
            .statistics = random({samples, heads, positions})};
  }
  AttentionBackward attention_backward(bool causal) {
    const auto forward = attention(causal);
    kernels().attention_forward(forward);
    return {.dy = random({samples, positions, heads, depth}),
            .qkv = forward.qkv,
            .causal = causal,
            .y = forward.y,
            .statistics = forward.statistics,
            .dqkv = random({samples, positions, 3, heads, depth})};
  }
  LayerNormForward layer_norm() {
    const Tensor sum = random({rows, width});
    return {.x = random({rows, width}),
            .residual = random({rows, width}),
            .weight = random({width}),
            .bias = random({width}),
            .sum = sum,
            .y = random({rows, width}),
            .mean = random({rows}),
            .rstd = random({rows})};
  }
  LayerNormBackward layer_norm_backward() {
    const Tensor dx = random({rows, width});
    return {.dy = random({rows, width}),
            .x = random({rows, width}),
            .weight = random({width}),
            .mean = random({rows}),
            .rstd = random({rows}),
            .dresidual = dx,
            .dx = dx,
            .dweight = random({width}),
            .dbias = random({width})};
  }
  EmbeddingForward embedding() {
    return {.tokens = integers({samples, positions}, vocabulary),
            .token_table = random({vocabulary, width}),
            .position_table = random({positions, width}),
            .y = random({rows, width})};
  }
  EmbeddingBackward embedding_backward() {
    return {.tokens = integers({samples, positions}, vocabulary),
            .dy = random({rows, width}),
            .dtoken_table = random({vocabulary, width}),
            .dposition_table = random({positions, width})};
  }
  CrossEntropy cross_entropy(std::int64_t classes) {
    return {.logits = random({rows, classes}),
            .targets = integers({rows}, classes),
            .losses = random({rows}),
            .dlogits = random({rows, classes})};
  }
  AdamW adamw(std::int64_t count) {
    return {.parameters = random({count}),
            .gradients = random({count}),
            .first_moment = random({count}),
            .second_moment = random({count}, 0),
            .lr = 1e-4f,
            .beta1 = 0.9f,
            .beta2 = 0.95f,
            .epsilon = 1e-8f,
            .weight_decay = 0.1f,
            .step = 10};
  }
  Sgd sgd(std::int64_t count) {
    return {.parameters = random({count}),
            .gradients = random({count}),
            .velocity = random({count}),
            .lr = 1e-4f,
            .momentum = 0.9f,
            .step = 10};
  }

  /// Seconds of the fastest of `tries` runs.
  double fastest(int tries, const std::function<void()>& run) {
    double best = 1e9;
    for (int i = 0; i < tries; ++i) {
      const double begin = device_->clock().now();
      run();
      best = std::min(best, device_->clock().now() - begin);
    }
    return best;
  }

  /// What the machine can do: flop/s of a large product, bytes/s of a large copy.
  void measure_machine() {
    LinearForward product{
        .x = random({rows, 1536}), .weight = random({1536, 1536}), .y = random({rows, 1536})};
    flops_ = 2.0 * rows * 1536 * 1536 / fastest(9, [&] { kernels().linear_forward(product); });
    const Tensor from = random({64 << 20 >> 2}), to = random({64 << 20 >> 2});
    bytes_ = 2.0 * 67108864 / fastest(9, [&] { kernels().copy({.in = from, .out = to}); });
    std::printf("this machine: product %.0f GFLOP/s, copy %.1f GB/s (read and written)\n",
                flops_ * 1e-9, bytes_ * 1e-9);
  }

  void products(const std::string& name, double operations, std::function<void()> run) {
    add(name, "gflops", operations, flops_, std::move(run));
  }
  void memory(const std::string& name, std::int64_t floats, std::function<void()> run) {
    add(name, "gbytes", 4.0 * static_cast<double>(floats), bytes_, std::move(run));
  }

 private:
  void add(const std::string& name, const char* unit, double work, double best,
           std::function<void()> run) {
    const auto body = [=, this](benchmark::State& state) {
      const double begin = device_->clock().now();
      for (auto _ : state) run();
      const double seconds = device_->clock().now() - begin;
      const double rate = work * static_cast<double>(state.iterations()) / seconds;
      state.counters[unit] = rate * 1e-9;
      state.counters["of_best"] = rate / best;
    };
    benchmark::RegisterBenchmark(name.c_str(), body)->Unit(benchmark::kMicrosecond)->UseRealTime();
  }

  std::unique_ptr<Device> device_;
  double flops_ = 1, bytes_ = 1;
};

void add_kernels(Bench& b) {
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
    const std::string name = std::string("/") + l.name;
    b.products("linear_forward" + name, operations,
               [op = b.linear(l.in, l.out, l.activation), &k] { k.linear_forward(op); });
    b.products("linear_backward" + name, 2 * operations,
               [op = b.linear_backward(l.in, l.out, l.activation), &k] { k.linear_backward(op); });
  }
  for (const bool causal : {true, false}) {
    const double pairs = causal ? 0.5 * positions * (positions + 1) : 1.0 * positions * positions;
    const std::string name = causal ? "/causal" : "/full";
    b.products("attention_forward" + name, 4.0 * samples * heads * depth * pairs,
               [op = b.attention(causal), &k] { k.attention_forward(op); });
    b.products("attention_backward" + name, 10.0 * samples * heads * depth * pairs,
               [op = b.attention_backward(causal), &k] { k.attention_backward(op); });
  }
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

/// The kernels of one training step of the whole model, and the share of the products in it: the
/// same step with everything else left out.
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

  // The bare products of a step: 3 passes over the weights, and 7 of attention's.
  struct Product {
    LinearForward op;
    double times;
  };
  const auto bare = [&](std::int64_t m, std::int64_t in, std::int64_t out, double times) {
    return Product{{.x = b.random({m, in}), .weight = b.random({out, in}), .y = b.random({m, out})},
                   times};
  };
  const std::vector<Product> products = {
      bare(rows, width, 3 * width, 3 * layers), bare(rows, width, width, 3 * layers),
      bare(rows, width, 4 * width, 3 * layers), bare(rows, 4 * width, width, 3 * layers),
      bare(rows, width, vocabulary, 3),
      // Half of the scores, in blocks of 64 rows, of which the average sees 5/8 of the keys.
      bare(64, depth, positions * 5 / 8, 7.0 * layers * samples * heads * positions / 64)};

  benchmark::RegisterBenchmark(
      "gpt_step",
      [=, &b](benchmark::State& state) {
        double step = 1e9;
        for (auto _ : state) {
          const double begin = b.device().clock().now();
          for (int i = 0; i < layers; ++i)
            for (const auto& run : layer) run();
          for (const auto& run : once) run();
          step = std::min(step, b.device().clock().now() - begin);
        }
        double bare_seconds = 0;
        for (const auto& p : products)
          bare_seconds += p.times * b.fastest(5, [&] { b.kernels().linear_forward(p.op); });
        const auto steps = static_cast<double>(state.iterations());
        state.counters["tokens"] = benchmark::Counter(rows * steps, benchmark::Counter::kIsRate);
        state.counters["share"] = bare_seconds / step;
      })
      ->Unit(benchmark::kMillisecond)
      ->UseRealTime();
}

}  // namespace
}  // namespace ringside

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  ringside::Bench bench(argc > 1 ? std::max(1, std::atoi(argv[1])) : 1);
  bench.measure_machine();
  ringside::add_kernels(bench);
  ringside::add_step(bench);
  benchmark::RunSpecifiedBenchmarks();
  benchmark::ClearRegisteredBenchmarks();  // their tensors must not outlive the device
  benchmark::Shutdown();
}
