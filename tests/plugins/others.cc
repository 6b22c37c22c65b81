// Rows of the other kinds: an optimizer, a model, a data set, and a compressor with options of its
// own.
#include <ringside/plugin.h>

#include <cmath>

#include "core/data/synthetic.h"
#include "core/models/mlp.h"

using namespace ringside;

namespace {

/// Plain SGD with half of the learning rate.
class HalfSgd final : public FlatOptimizer {
 public:
  HalfSgd(const OptimizerConfig& config, const RunSize& run, Device& device,
          const Tensor& parameters, ParameterMap map)
      : FlatOptimizer(config, run, device, parameters, std::move(map)) {}

  void update(const ParameterRange& whole, const StepInfo& info) override {
    each_alike(whole, info, [&](const ParameterRange& range, const Scalars& with) {
      device().kernels().sgd({.parameters = range.parameters,
                              .gradients = range.gradients,
                              .master = master(range),
                              .velocity = {},
                              .lr = with.lr / 2,
                              .weight_decay = with.weight_decay,
                              .gradient_scale = with.gradient_scale,
                              .step = with.step});
    });
  }

 private:
  std::vector<OptimizerState> own_state() const override { return {}; }
};

OptimizerInfo half_sgd() {
  return {"half_sgd", "SGD with half of the learning rate",
          [](const OptimizerConfig& config, const RunSize& run, Device& device,
             const Tensor& parameters, ParameterMap map) -> std::unique_ptr<Optimizer> {
            return std::make_unique<HalfSgd>(config, run, device, parameters, std::move(map));
          },
          [](const OptimizerConfig&) { return 0; }};
}

ModelInfo my_mlp() {
  ModelInfo row = mlp_info();
  row.name = "my_mlp";
  return row;
}

/// No file of weights has names for its parameters.
ModelInfo nameless() {
  ModelInfo row = mlp_info();
  row.name = "nameless";
  row.names = nullptr;
  return row;
}

DatasetInfo my_tokens() {
  return {
      "my_tokens", "random tokens", [](const DataConfig&) { return DataFiles(); }, false,
      [](const DataConfig&, const ModelConfig& model, Task task) {
        return Datasets{synthetic_dataset(1000, model.context, model.vocabulary, task, 1), nullptr};
      }};
}

struct Digits {
  std::int64_t digits = 2;
};
Fields fields_of(Digits& own) {
  return {{"digits", &own.digits, "decimal digits that are kept", Range::positive}};
}

/// The message: values rounded to some digits, which add up by themselves.
class Rounded final : public Compressor {
 public:
  explicit Rounded(CompressorContext context) : Compressor(std::move(context)) {}
  Move move() const override { return Move::sum; }
  Form form(int) const override { return {context().count(), DType::f32}; }
  void give(int, const Tensor& values, const Tensor& message) override {
    const double unit = std::pow(10.0, -static_cast<double>(options().own<Digits>().digits));
    on_host(device(), {values}, {message}, {.bytes = 2.0 * static_cast<double>(values.bytes())},
            [unit](HostValues& in, HostValues& out) {
              for (std::size_t i = 0; i < in.of<float>(0).size(); ++i)
                out.of<float>(0)[i] =
                    static_cast<float>(std::round(in.of<float>(0)[i] / unit) * unit);
            });
  }
  void take(int, std::span<const Tensor> messages, const Tensor& total) override {
    kernels().copy({.in = messages[0], .out = total});
  }
  void keep(const Tensor&, const Tensor&, const Tensor&) override {}
};

CompressorInfo rounded() {
  return {.name = "rounded",
          .summary = "values with few digits",
          .move = Compressor::Move::sum,
          .bytes = [](const CompressionOptions&,
                      const Shape& tensor) { return 4.0 * static_cast<double>(tensor.count()); },
          .make = make_compressor<Rounded>,
          .options = Digits{}};
}

}  // namespace

RINGSIDE_PLUGIN(half_sgd(), my_mlp(), nameless(), my_tokens(), rounded())
