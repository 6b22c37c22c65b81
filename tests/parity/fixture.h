// Results of PyTorch for a small model; make_fixtures.py writes them.
#pragma once

#include <cstring>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/base/json_fields.h"
#include "core/data/dataset.h"
#include "core/interchange/safetensors.h"
#include "core/models/model.h"
#include "core/optim/optimizer.h"

namespace ringside::testing {

/// The values of a tensor of F32 or BF16.
inline std::vector<float> floats_of(const StoredTensor& from) {
  const std::size_t size = from.dtype == "BF16" ? sizeof(bf16) : sizeof(float);
  std::vector<float> out(from.bytes.size() / size);
  for (std::size_t i = 0; i < out.size(); ++i) {
    bf16 rounded;
    std::memcpy(size == sizeof(bf16) ? static_cast<void*>(&rounded) : &out[i],
                from.bytes.data() + i * size, size);
    if (size == sizeof(bf16)) out[i] = to_float(rounded);
  }
  return out;
}

/// A struct with the fields that `in` has, and defaults for the others.
template <HasFields Struct>
Struct over_defaults(const nlohmann::json& in) {
  nlohmann::json all = to_json(Struct{});
  all.update(in);
  return read_json<Struct>(all);
}

class Fixture {
 public:
  explicit Fixture(const std::string& name)
      : weights_(folder + name + ".weights.safetensors"),
        file_(open_safetensors(folder + name + ".safetensors")) {
    std::uint64_t length = 0;
    const auto* begin = reinterpret_cast<const char*>(file_.files[0]->bytes().data());
    std::memcpy(&length, begin, sizeof length);
    const auto about = nlohmann::json::parse(begin + sizeof length,
                                             begin + sizeof length + length)["__metadata__"];
    const auto table = [&](const char* key) {
      return nlohmann::json::parse(about.at(key).get<std::string>());
    };
    model_ = over_defaults<ModelConfig>(table("model"));
    optimizer_ = over_defaults<OptimizerConfig>(table("optimizer"));
    steps_ = std::stoll(about.at("steps").get<std::string>());
  }

  const std::string& weights() const { return weights_; }
  const ModelConfig& model() const { return model_; }
  const OptimizerConfig& optimizer() const { return optimizer_; }
  std::int64_t steps() const { return steps_; }

  const StoredTensor& tensor(const std::string& name) const {
    const auto at = file_.tensors.find(name);
    if (at == file_.tensors.end()) throw Error("{}: no {}", file_.path, name);
    return at->second;
  }
  const std::map<std::string, StoredTensor>& tensors() const { return file_.tensors; }

  std::vector<float> floats(const std::string& name) const { return floats_of(tensor(name)); }
  std::vector<std::int32_t> integers(const std::string& name) const {
    const StoredTensor& from = tensor(name);
    std::vector<std::int32_t> out(from.bytes.size() / sizeof(std::int32_t));
    std::memcpy(out.data(), from.bytes.data(), from.bytes.size());
    return out;
  }

 private:
  inline static const std::string folder = RINGSIDE_FIXTURES "/";

  std::string weights_;
  StoredTensors file_;
  ModelConfig model_;
  OptimizerConfig optimizer_;
  std::int64_t steps_ = 0;
};

/// A data set of the fixture's batch; it has no other samples.
class FixtureData final : public Dataset {
 public:
  FixtureData(const Fixture& fixture, const Model& model)
      : inputs_(fixture.tensor("inputs")),
        targets_(fixture.integers("targets")),
        task_(model.task) {
    for (const LossTerm& term : model.terms) parts_.push_back(term.rows);
  }

  std::int64_t size() const override { return inputs_.extents[0]; }
  Shape input_shape() const override {
    const auto& e = inputs_.extents;
    return e.size() == 4 ? Shape{e[1], e[2], e[3]} : Shape{e[1]};
  }
  DType input_dtype() const override {
    return task_ == Task::image_class ? DType::f32 : DType::i32;
  }
  Shape target_shape() const override {
    return {static_cast<std::int64_t>(targets_.size()) / size()};
  }
  std::vector<std::int64_t> target_parts() const override { return parts_; }

  void read(std::int64_t sample, std::span<std::byte> input,
            std::span<std::int32_t> target) const override {
    const auto at = static_cast<std::size_t>(sample);
    const auto count = static_cast<std::size_t>(input_shape().count());
    if (task_ == Task::image_class) {
      // A value is stored as its number of sixteenths, in one signed byte.
      for (std::size_t i = 0; i < count; ++i) {
        const auto value =
            static_cast<float>(static_cast<std::int8_t>(inputs_.bytes[at * count + i])) / 16;
        std::memcpy(input.data() + 4 * i, &value, sizeof value);
      }
    } else {
      const auto bytes = inputs_.bytes.subspan(at * input.size(), input.size());
      std::copy(bytes.begin(), bytes.end(), input.begin());
    }
    std::copy_n(targets_.begin() + static_cast<std::ptrdiff_t>(at * target.size()), target.size(),
                target.begin());
  }

 private:
  const StoredTensor& inputs_;
  std::vector<std::int32_t> targets_;
  Task task_;
  std::vector<std::int64_t> parts_;
};

}  // namespace ringside::testing
