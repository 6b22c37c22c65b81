// Units of a model that take micro-batches through forward and backward, for tests that compare
// bits.
#pragma once

#include <memory>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "tests/models/cases.h"

namespace ringside {

using Bytes = std::vector<std::byte>;

inline constexpr std::int64_t micro_batches = 3, micro_batch_samples = 2;

enum class Remade : std::uint8_t { nothing, attention, units };

struct Way {
  Case model;
  DType dtype;
  Remade remade;
};

inline std::string name_of(const Way& way) {
  const char* const what[] = {"nothing", "attention", "units"};
  return way.model.name + "_" + std::string(name_of(way.dtype)) + "_remakes_" +
         what[static_cast<std::size_t>(way.remade)];
}
inline void PrintTo(const Way& way, std::ostream* out) { *out << name_of(way); }
inline std::string name_of_way(const ::testing::TestParamInfo<Way>& info) {
  return name_of(info.param);
}

inline std::vector<Way> ways() {
  std::vector<Way> out;
  for (const Case& one : cases())
    for (const DType dtype : {DType::f32, DType::bf16})
      for (const Remade remade : {Remade::nothing, Remade::attention, Remade::units})
        if (remade != Remade::attention || find_model(one.config.kind).attention)
          out.push_back({one, dtype, remade});
  return out;
}

/// What a micro-batch computes.
struct Computed {
  Bytes logits;
  std::vector<Bytes> inputs, parameters;  // gradients, by unit
};

/// Units [begin, end) of a copy of the model, and a micro-batch on its way through them.
struct ModelPart {
  Model& model;
  std::size_t begin = 0, end = model.units.size();
  std::int64_t micro_batch = 0;
  std::vector<Tensor> gradients;
  std::unique_ptr<testing::MicroBatch> own = std::make_unique<testing::MicroBatch>(model);
  Tensor x{};                                      // what the last unit returned
  std::vector<Tensor> inputs{model.units.size()};  // of units that are made again
  std::vector<Bytes> input_gradients{model.units.size()};
};

class MicroBatches : public ::testing::TestWithParam<Way> {
 protected:
  MicroBatches() {
    for (std::size_t u = 0; u < model_.units.size(); ++u) {
      const Unit& unit = *model_.units[u];
      const std::int64_t count = unit.layout().count();
      const Tensor values = device_->tensor({count}, MemoryKind::workspace);
      initialise(unit, model_.first_parameter(u), 1, 0, values);
      device_->kernels().add(
          {.in = upload(*device_, normals(count, 50 + u, 0.2), {count}), .out = values});
      parameters_.push_back(narrowed(values, MemoryKind::parameter));
    }
  }

  Model make() { return make_model(GetParam().model.config, *device_); }
  Tensor narrowed(const Tensor& values, MemoryKind kind) {
    const Tensor out = device_->tensor(values.shape(), kind, GetParam().dtype);
    device_->kernels().cast({.in = values, .out = out});
    return out;
  }
  Tensor copy(const Tensor& from) {
    const Tensor out = device_->tensor(from.shape(), MemoryKind::workspace, from.dtype());
    device_->kernels().copy({.in = from, .out = out});
    return out;
  }
  Bytes bits(const Tensor& of) {
    Bytes out(of.bytes());
    device_->read(of, out);
    return out;
  }

  ModelPart part_of(Model& model, std::int64_t micro_batch) {
    ModelPart out{.model = model, .micro_batch = micro_batch, .gradients = {}};
    for (const Tensor& p : parameters_) {
      out.gradients.push_back(device_->tensor(p.shape(), MemoryKind::gradient, p.dtype()));
      device_->kernels().fill({.out = out.gradients.back(), .value = std::nanf("")});
    }
    return out;
  }
  /// Binds the units of the part, and no others.
  void bind(const ModelPart& part, bool parameters, bool gradients) {
    for (std::size_t u = 0; u < part.model.units.size(); ++u) {
      const bool own = part.begin <= u && u < part.end;
      part.model.units[u]->bind(own && parameters ? parameters_[u] : Tensor{},
                                own && gradients ? part.gradients[u] : Tensor{});
    }
  }

  Pass pass_of(std::int64_t micro_batch) const {
    return {.step = 2,
            .micro_batch = micro_batch,
            .micro_batches = micro_batches,
            .keep_attention = GetParam().remade != Remade::attention,
            .first_sample = 7 + micro_batch * micro_batch_samples,
            .seed = seed_of_passes};
  }
  bool remakes(const ModelPart& part, std::size_t unit) const {
    return GetParam().remade == Remade::units && unit + 1 < part.model.units.size();
  }
  Tensor input(std::int64_t micro_batch) {
    return input_of(GetParam().model.config, model_, *device_, micro_batch_samples,
                    100 + static_cast<std::uint64_t>(10 * micro_batch));
  }
  /// The gradient of the logits.
  Tensor output_gradient(const Tensor& logits, std::int64_t micro_batch) {
    const auto values = normals(logits.count(), 300 + static_cast<std::uint64_t>(micro_batch), 0.1);
    return narrowed(upload(*device_, values, logits.shape()), MemoryKind::workspace);
  }

  void forward(ModelPart& part, std::size_t u) {
    Pass pass = pass_of(part.micro_batch);
    pass.keep = !remakes(part, u);
    if (!pass.keep) part.inputs[u] = part.x;
    part.x = part.model.units[u]->forward(part.x, pass, part.own->saved[u]);
    EXPECT_EQ(part.own->saved[u].empty(), !pass.keep) << part.model.units[u]->name();
  }
  void backward(ModelPart& part, std::size_t u) {
    Unit& unit = *part.model.units[u];
    Saved& saved = part.own->saved[u];
    if (remakes(part, u)) {
      Pass pass = pass_of(part.micro_batch);
      pass.again = true;
      unit.forward(std::exchange(part.inputs[u], {}), pass, saved);
    }
    const Tensor d = unit.backward(part.x, saved);
    EXPECT_EQ(saved.has_put_off(), saved.puts_off()) << unit.name();
    EXPECT_TRUE(saved.puts_off() || saved.empty()) << unit.name();
    part.x = {};
    if (!d) return;
    part.input_gradients[u] = bits(d);
    part.x = copy(d);
    // What was put off must not read the result.
    device_->kernels().fill({.out = d, .value = std::nanf("")});
  }
  void finish(ModelPart& part, std::size_t u) {
    part.own->saved[u].finish_weights();
    EXPECT_TRUE(part.own->saved[u].empty()) << part.model.units[u]->name();
  }
  void put_weights_off(ModelPart& part) {
    for (Saved& saved : part.own->saved) saved.put_weights_off(true);
  }

  void all_forward(ModelPart& part) {
    bind(part, true, false);
    for (std::size_t u = part.begin; u < part.end; ++u) forward(part, u);
  }
  void all_backward(ModelPart& part, bool gradients = true) {
    bind(part, true, gradients);
    for (std::size_t u = part.end; u-- > part.begin;) backward(part, u);
  }
  void all_finish(ModelPart& part) {
    bind(part, false, true);
    for (std::size_t u = part.end; u-- > part.begin;) finish(part, u);
  }
  /// Forward through the whole model. Leaves the gradient of the logits as x.
  Bytes logits_of(ModelPart& part) {
    part.x = input(part.micro_batch);
    all_forward(part);
    Bytes out = bits(part.x);
    part.x = output_gradient(part.x, part.micro_batch);
    return out;
  }

  const Computed& expected(std::int64_t micro_batch) {
    if (expected_.empty())
      for (std::int64_t m = 0; m < micro_batches; ++m) {
        ModelPart part = part_of(model_, m);
        Computed& out = expected_.emplace_back();
        out.logits = logits_of(part);
        all_backward(part);
        out.inputs = part.input_gradients;
        for (const Tensor& gradient : part.gradients) out.parameters.push_back(bits(gradient));
      }
    return expected_[static_cast<std::size_t>(micro_batch)];
  }
  void expect_gradients(const ModelPart& part) {
    const Computed& right = expected(part.micro_batch);
    for (std::size_t u = part.begin; u < part.end; ++u) {
      const std::string& name = part.model.units[u]->name();
      EXPECT_TRUE(part.input_gradients[u] == right.inputs[u]) << name << ": input";
      EXPECT_TRUE(bits(part.gradients[u]) == right.parameters[u]) << name << ": parameters";
    }
  }

  const std::unique_ptr<Device> device_ = make_cpu_device(1);
  Model model_ = make();
  std::vector<Tensor> parameters_;
  std::vector<Computed> expected_;
};

}  // namespace ringside
