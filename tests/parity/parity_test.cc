// Models compute and train as PyTorch's do.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>

#include "core/device/cpu/cpu_device.h"
#include "core/interchange/weights.h"
#include "core/models/models.h"
#include "core/scheme/single.h"
#include "core/train/trainer.h"
#include "tests/parity/fixture.h"
#include "tests/support/micro_batch.h"
#include "tests/support/temporary_folder.h"

namespace ringside {
namespace {

using testing::Fixture;
using testing::FixtureData;

std::vector<float> floats(Device& device, const Tensor& values) {
  const Tensor out = device.tensor(values.shape(), MemoryKind::workspace);
  device.kernels().cast({.in = values, .out = out});
  return {out.data<float>(), out.data<float>() + out.count()};
}

/// A batch of the fixture's samples in their order, laid out as the Loader lays out its batches.
Batch batch_of(Device& device, const FixtureData& data) {
  const Shape in = data.input_shape();
  const std::int64_t n = data.size(), each = data.target_shape().count();
  Batch batch{device.tensor({n * in.count()}, MemoryKind::data, data.input_dtype()),
              device.tensor({n * each}, MemoryKind::data, DType::i32)};
  const std::size_t bytes = batch.inputs.bytes() / static_cast<std::size_t>(n);
  std::vector<std::int32_t> targets(static_cast<std::size_t>(each));
  for (std::int64_t s = 0; s < n; ++s) {
    data.read(s, {batch.inputs.data<std::byte>() + static_cast<std::size_t>(s) * bytes, bytes},
              targets);
    std::int64_t first = 0, at = 0;
    for (const std::int64_t part : data.target_parts()) {
      std::copy_n(targets.begin() + at, part,
                  batch.targets.data<std::int32_t>() + first + s * part);
      first += n * part;
      at += part;
    }
  }
  batch.inputs =
      batch.inputs.reshaped(in.rank() == 3 ? Shape{n, in[0], in[1], in[2]} : Shape{n, in[0]});
  return batch;
}

double largest(const std::vector<float>& values) {
  double out = 0;
  for (const float value : values) out = std::max(out, std::abs(static_cast<double>(value)));
  return out;
}

/// The largest difference, divided by the largest magnitude in `expected` or by `least`, whichever
/// is larger.
double difference(const std::vector<float>& got, const std::vector<float>& expected,
                  double least = 0) {
  EXPECT_EQ(got.size(), expected.size());
  std::vector<float> apart;
  for (std::size_t i = 0; i < std::min(got.size(), expected.size()); ++i)
    apart.push_back(std::isfinite(got[i]) ? got[i] - expected[i] : INFINITY);
  return largest(apart) / std::max(largest(expected), least);
}

class Parity : public ::testing::TestWithParam<std::tuple<std::string, DType>> {
 protected:
  Parity()
      : fixture_(std::get<0>(GetParam())),
        dtype_(std::get<1>(GetParam())),
        prefix_(dtype_ == DType::f32 ? "fp32." : "bf16."),
        model_(make_model(fixture_.model(), *device_)),
        data_(fixture_, model_),
        batch_(batch_of(*device_, data_)),
        values_(open_weights(fixture_.weights(), model_, fixture_.model())) {
    for (const auto& unit : model_.units) values_->write_statistics(*unit);
  }

  double tolerance() const { return dtype_ == DType::f32 ? 1e-4 : 2e-2; }
  std::vector<float> expected(const std::string& what) const {
    return fixture_.floats(prefix_ + what);
  }
  Tensor forward(const Pass& pass, testing::MicroBatch& own) {
    return own.forward(model_, batch_.inputs, pass);
  }

  /// The tolerance for a gradient. Some of PyTorch's bf16 gradients of Llama's blocks are as far
  /// from fp32 as the tolerance; rounding in another order may bring ours as far to the other side.
  double tolerance_of(const std::string& what) const {
    const std::string& kind = fixture_.model().kind;
    if (dtype_ == DType::f32 || (kind != "llama" && kind != "idefics3")) return tolerance();
    return std::max(tolerance(), 2 * difference(expected(what), fixture_.floats("fp32." + what)));
  }
  /// `what` is "gradient." followed by the parameter's name.
  void compare_gradient(const std::string& what, const StoredTensor& got) {
    EXPECT_EQ(got.extents, fixture_.tensor(prefix_ + what).extents) << what;
    const auto values = testing::floats_of(got);
    // The exact gradient of a key's bias is 0, so its error is divided by the size of the gradient
    // of the value's bias.
    double least = 0;
    for (const auto& [key, value] :
         {std::pair{"key.bias", "value.bias"}, {"k_proj.bias", "v_proj.bias"}})
      if (const auto at = what.find(key); at != std::string::npos)
        least = largest(expected(std::string(what).replace(at, std::strlen(key), value)));
    if (!rounding_flips()) {
      EXPECT_LT(difference(values, expected(what), least), tolerance_of(what)) << what;
      return;
    }
    if (!has_few_elements()) compare_roundings(what, values, 6);
    // The first part of a name says in which block the parameter is.
    const std::size_t begin = what.find('.') + 1;
    Squares& block = blocks_[what.substr(begin, what.find('.', begin) - begin)];
    const auto exact = fixture_.floats("fp32." + what), pytorchs = expected(what);
    for (std::size_t i = 0; i < exact.size(); ++i) {
      block.own_error += std::pow(values[i] - exact[i], 2);
      block.pytorch_error += std::pow(pytorchs[i] - exact[i], 2);
      block.exact += std::pow(exact[i], 2);
    }
  }
  /// Expects the same of the gradients of blocks, and less tolerance of the whole gradient.
  void compare_blocks() const {
    Squares whole;
    for (const auto& [name, block] : blocks_) {
      EXPECT_LT(std::sqrt(block.own_error),
                tolerance() * std::sqrt(block.exact) + 3 * std::sqrt(block.pytorch_error))
          << "of " << name;
      whole.own_error += block.own_error;
      whole.pytorch_error += block.pytorch_error;
    }
    EXPECT_LE(std::sqrt(whole.own_error), 1.5 * std::sqrt(whole.pytorch_error))
        << "of the whole gradient";
  }
  /// Expects that `values` are at most `times` as far from the fp32 values as PyTorch's bf16 values
  /// are, plus the tolerance.
  void compare_roundings(const std::string& what, const std::vector<float>& values,
                         double times) const {
    const auto exact = fixture_.floats("fp32." + what);
    EXPECT_LT(difference(values, exact), tolerance() + times * difference(expected(what), exact))
        << what;
  }
  /// Whether rounding to bf16 moves values from one side of a relu's zero to the other, as it does
  /// behind a norm. The gradients of the layers before the relu then change too, so two
  /// programs that round in different places are as far from each other as each is from fp32. Such
  /// a model is compared with fp32: its whole gradient may be only a little further from the fp32
  /// gradient than PyTorch's bf16 gradient is; that of one block or parameter may be a few times as
  /// far.
  bool rounding_flips() const {
    const std::string& kind = fixture_.model().kind;
    return dtype_ == DType::bf16 && (kind == "resnet" || kind == "inception" || kind == "t5");
  }

  /// Whether parameters have so few elements that one value on the other side of a relu's zero
  /// decides how far their gradients are from fp32. Then only blocks are compared.
  bool has_few_elements() const { return fixture_.model().kind == "inception"; }

  /// Sums of squares over the elements of a gradient: of the errors, and of the fp32 values.
  struct Squares {
    double own_error = 0, pytorch_error = 0, exact = 0;
  };
  std::map<std::string, Squares> blocks_{};
  std::unique_ptr<Device> device_ = make_cpu_device(1);
  Fixture fixture_;
  DType dtype_;
  std::string prefix_;
  Model model_;
  FixtureData data_;
  Batch batch_;
  std::shared_ptr<const InitialValues> values_;
};

TEST_P(Parity, LogitsAndTheGradientOfEveryParameter) {
  std::vector<Tensor> gradients;
  for (std::size_t u = 0; u < model_.units.size(); ++u) {
    Unit& unit = *model_.units[u];
    const Shape shape{unit.layout().count()};
    const Tensor parameters = device_->tensor(shape, MemoryKind::parameter, dtype_);
    gradients.push_back(device_->tensor(shape, MemoryKind::gradient, dtype_));
    values_->write(unit, model_.first_parameter(u), 0, parameters);
    unit.bind(parameters, gradients[u]);
  }
  testing::MicroBatch own(model_);
  const Tensor logits = forward({}, own);
  if (rounding_flips())
    compare_roundings("logits", floats(*device_, logits), 1);
  else
    EXPECT_LT(difference(floats(*device_, logits), expected("logits")), tolerance());

  own.backward(
      model_,
      cross_entropy(*device_, logits, batch_.targets, {model_.terms, data_.size()}, true).gradient);
  // Writes the gradients under PyTorch's names and in PyTorch's layout.
  const testing::TemporaryFolder folder;
  const std::string path = folder.path() / "gradients.safetensors";
  {
    WeightsFile file(path, model_, fixture_.model(), dtype_);
    for (std::size_t u = 0; u < model_.units.size(); ++u) file.add(*model_.units[u], gradients[u]);
    file.finish(0);
  }
  const StoredTensors named = open_safetensors(path);
  std::size_t compared = 0;
  for (const auto& [name, tensor] : fixture_.tensors()) {
    if (!name.starts_with(prefix_ + "gradient.")) continue;
    compare_gradient(name.substr(prefix_.size()), named.tensors.at(name.substr(14)));
    ++compared;
  }
  compare_blocks();
  std::size_t parameters = 0;
  for (const NamedTensor& tensor : names_of(model_, fixture_.model()).tensors)
    parameters += tensor.source == NamedTensor::Source::parameter ? 1 : 0;
  EXPECT_EQ(compared, parameters);
}

TEST_P(Parity, LossesOfTenSteps) {
  RunPlan plan;
  plan.scheme = "single";
  plan.model = fixture_.model();
  plan.optimizer = fixture_.optimizer();
  plan.train.steps = fixture_.steps();
  plan.train.warmup = 0;
  plan.train.global_batch = plan.train.micro_batch = data_.size();
  plan.train.precision = value_named<Precision>(name_of(dtype_)).value();
  plan.ranks = {{.rank = 0, .worker = 0}};
  MemoryStore store;
  Timeline timeline(*device_);
  const RankContext context{plan, 0, *device_, store, timeline, nullptr, values_};
  const auto scheme = make_single(context, {});
  const Loader loader(data_, *device_, data_.size(), 1);
  Trainer trainer(context, model_, *scheme, loader, nullptr);
  const RankRecord record = trainer.run([](const Progress&) {});

  const auto losses = expected("losses");
  ASSERT_EQ(record.losses.size(), losses.size());
  for (std::size_t i = 0; i < losses.size(); ++i)
    EXPECT_NEAR(record.losses[i], losses[i], tolerance() * std::abs(losses[i])) << "step " << i;
  EXPECT_LT(losses.back(), 0.97 * losses.front()) << "it learns";
  testing::MicroBatch own(model_);
  EXPECT_LT(difference(floats(*device_, forward(evaluation, own)), expected("final_logits")),
            10 * tolerance())
      << "with the running statistics";
}

INSTANTIATE_TEST_SUITE_P(
    PyTorch, Parity,
    ::testing::Combine(::testing::Values("gpt", "gpt-tied", "llama", "llama-tied", "bert",
                                         "idefics3", "t5", "mlp", "resnet10-cifar",
                                         "resnet14-imagenet", "resnext14-cifar", "vgg11", "alexnet",
                                         "inception24"),
                       ::testing::Values(DType::f32, DType::bf16)),
    [](const auto& info) {
      std::string name =
          std::get<0>(info.param) + "_" + std::string(name_of(std::get<1>(info.param)));
      std::replace(name.begin(), name.end(), '-', '_');
      return name;
    });

}  // namespace
}  // namespace ringside
