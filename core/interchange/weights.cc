#include "core/interchange/weights.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <span>
#include <vector>

#include "core/base/error.h"
#include "core/device/write_values.h"
#include "core/interchange/llmc.h"
#include "core/interchange/matched_tensors.h"
#include "core/interchange/stated_model.h"
#include "core/models/models.h"

namespace ringside {
namespace {

constexpr std::int64_t values_at_once = 1 << 16;

constexpr float to_float(float value) { return value; }

/// Calls visit(i, e) for each element i in [begin, end) of the model's tensor, where e is the
/// number of the same element in the file's tensor.
template <class Visit>
void for_each_element(const NamedTensor& tensor, std::int64_t begin, std::int64_t end,
                      const Visit& visit) {
  const std::size_t last = tensor.shape.rank() - 1;
  const std::int64_t row = tensor.shape[last], stride = tensor.strides[last];
  while (begin < end) {
    std::int64_t rest = begin / row, stored = begin % row * stride;
    for (std::size_t axis = last; axis-- > 0; rest /= tensor.shape[axis])
      stored += rest % tensor.shape[axis] * tensor.strides[axis];
    const std::int64_t stop = std::min(end, (begin / row + 1) * row);
    for (; begin < stop; ++begin, stored += stride) visit(begin, stored);
  }
}

template <class Stored>
void load_as(const NamedTensor& tensor, const StoredTensor& from, std::int64_t begin,
             std::span<float> out) {
  const std::int64_t end = begin + static_cast<std::int64_t>(out.size());
  for_each_element(tensor, begin, end, [&](std::int64_t i, std::int64_t stored) {
    Stored value;
    std::memcpy(&value, from.bytes.data() + static_cast<std::size_t>(stored) * sizeof value,
                sizeof value);
    out[static_cast<std::size_t>(i - begin)] = to_float(value);
  });
}

/// Reads elements [begin, begin + out.size()) of the model's tensor and converts them to fp32.
void load(const NamedTensor& tensor, const StoredTensor& from, std::int64_t begin,
          std::span<float> out) {
  switch (*parameter_dtype_of(from.dtype)) {
    case DType::bf16:
      return load_as<bf16>(tensor, from, begin, out);
    case DType::f16:
      return load_as<fp16>(tensor, from, begin, out);
    default:
      return load_as<float>(tensor, from, begin, out);
  }
}

/// A tensor that was found in the file.
struct Found {
  NamedTensor tensor;
  const StoredTensor* stored;
};

class FromFile final : public InitialValues {
 public:
  FromFile(StoredTensors file, const Model& model, const Names& names) : file_(std::move(file)) {
    const auto found = match_tensors(file_, model, names);
    for (std::size_t i = 0; i < found.size(); ++i)
      if (found[i])
        units_[model.units[names.tensors[i].unit]->name()].push_back({names.tensors[i], found[i]});
  }

  void write(const Unit& unit, std::int64_t, std::int64_t begin, const Tensor& out) const override {
    const std::int64_t end = begin + out.count();
    if (begin < 0 || end > unit.layout().count())
      throw Error(
          "unit {}: there are no initial values for the range [{}, {}), which is not inside the "
          "unit; the unit has {} elements",
          unit.name(), begin, end, unit.layout().count());
    if (!unit.device().has_values()) return;
    for (const auto& [tensor, stored] : units_.at(unit.name())) {
      if (tensor.source != NamedTensor::Source::parameter) continue;
      const std::int64_t from = std::max(begin, tensor.begin);
      const std::int64_t to = std::min(end, tensor.begin + tensor.shape.count());
      if (from < to)
        copy(unit.device(), tensor, *stored, from - tensor.begin,
             out.range(from - begin, to - from));
    }
  }

  void write_statistics(const Unit& unit) const override {
    if (!unit.device().has_values()) return;
    const auto found = units_.find(unit.name());
    if (found == units_.end()) return;
    for (const auto& [tensor, stored] : found->second)
      if (tensor.source == NamedTensor::Source::statistic)
        copy(unit.device(), tensor, *stored, 0, unit.statistics()[tensor.statistic].values);
  }

 private:
  /// Throws Error for values that are not finite, or too large for the dtype that they are rounded
  /// to. Otherwise the loss would not be finite, and the learning rate would be blamed for it.
  static void check_finite(const NamedTensor& tensor, const StoredTensor& stored,
                           std::span<const float> values, DType dtype) {
    const auto rounded = [dtype](float value) {
      if (dtype == DType::f16) return to_float(to_fp16(value));
      if (dtype == DType::bf16) return to_float(to_bf16(value));
      return value;
    };
    for (const float value : values)
      if (!std::isfinite(rounded(value)))
        throw Error(
            "{}: tensor '{}' has the value {}; all values of train.initial_weights must be finite "
            "in {}",
            stored.file, tensor.name, value, name_of(dtype));
  }

  void copy(Device& device, const NamedTensor& tensor, const StoredTensor& stored,
            std::int64_t begin, const Tensor& out) const {
    std::vector<float> values;
    for (std::int64_t at = 0; at < out.count(); at += values_at_once) {
      const std::int64_t count = std::min(values_at_once, out.count() - at);
      values.resize(static_cast<std::size_t>(count));
      // If the file was cut short meanwhile, reading past its new end would raise SIGBUS.
      file_.check_unchanged();
      load(tensor, stored, begin + at, values);
      check_finite(tensor, stored, values, out.dtype());
      write_values(device, out.range(at, count), values);
    }
  }

  StoredTensors file_;
  std::map<std::string, std::vector<Found>> units_;
};

template <class Element>
std::vector<std::byte> arranged(const NamedTensor& tensor, std::span<const std::byte> unit) {
  std::vector<std::byte> out(static_cast<std::size_t>(tensor.shape.count()) * sizeof(Element));
  for_each_element(tensor, 0, tensor.shape.count(), [&](std::int64_t i, std::int64_t stored) {
    std::memcpy(out.data() + static_cast<std::size_t>(stored) * sizeof(Element),
                unit.data() + static_cast<std::size_t>(tensor.begin + i) * sizeof(Element),
                sizeof(Element));
  });
  return out;
}

std::vector<SafetensorsWriter::Tensor> declared(const Names& names, DType dtype) {
  std::vector<SafetensorsWriter::Tensor> out;
  for (const NamedTensor& tensor : names.tensors) {
    SafetensorsWriter::Tensor& stored = out.emplace_back();
    stored.name = tensor.name;
    stored.extents = tensor.extents;
    if (tensor.source == NamedTensor::Source::counter) {
      stored.dtype = "I64";
      stored.element_bytes = sizeof(std::int64_t);
    } else {
      const bool parameter = tensor.source == NamedTensor::Source::parameter;
      stored.dtype = stored_name_of(parameter ? dtype : DType::f32);
      stored.element_bytes = size_of(parameter ? dtype : DType::f32);
    }
  }
  return out;
}

/// Throws Error if the file states another model.
void check_stated(const StatedModel& stated, ModelConfig here) {
  if (is_padded(here.vocabulary, stated.model.vocabulary))
    here.vocabulary = stated.model.vocabulary;
  std::vector<std::string> texts;
  for (const Disagreement& one : disagreements(stated, here)) texts.push_back(one.text);
  if (!texts.empty())
    throw Error("train.initial_weights: {}; choose the [model] that the weights were made for",
                fmt::join(texts, "; "));
}

/// Compares the model with those that the file of weights and a config.json in its folder state.
void check_stated_models(const StoredTensors& stored, const ModelConfig& config) {
  if (const auto saved = model_of_metadata(stored)) check_stated(*saved, config);
  const auto config_json = std::filesystem::path(stored.path).parent_path() / "config.json";
  std::error_code error;
  if (has_hugging_face_config(config.kind) && std::filesystem::exists(config_json, error))
    check_stated(read_hugging_face_config(config_json, "train.initial_weights"), config);
}

SafetensorsWriter::Metadata metadata_of(const ModelConfig& config) {
  return {stating_metadata(config)};
}

std::vector<std::byte> read(Device& device, const Tensor& values) {
  std::vector<std::byte> out(values.bytes());
  device.read(values, out);
  return out;
}

}  // namespace

std::shared_ptr<const InitialValues> open_weights(const std::string& path, const Model& model,
                                                  const ModelConfig& config) {
  if (config.kind == "gpt" && is_llmc_model(path))
    return std::make_shared<FromFile>(open_llmc_model(path, config), model, llmc_names_of(model));
  StoredTensors stored = open_safetensors(path);
  check_stated_models(stored, config);
  remove_wrappers(stored);
  return std::make_shared<FromFile>(std::move(stored), model, names_of(model, config));
}

WeightsFile::WeightsFile(std::filesystem::path path, const Model& model, const ModelConfig& config,
                         DType dtype)
    : model_(model),
      names_(names_of(model, config)),
      dtype_(dtype),
      writer_(std::move(path), declared(names_, dtype), metadata_of(config)) {}

WeightsFile::WeightsFile(std::vector<std::byte>& bytes, const Model& model,
                         const ModelConfig& config, DType dtype)
    : model_(model),
      names_(names_of(model, config)),
      dtype_(dtype),
      writer_(bytes, declared(names_, dtype), metadata_of(config)) {}

void WeightsFile::add(const Unit& unit, const Tensor& values) {
  if (values.dtype() != dtype_ || values.count() != unit.layout().count())
    throw Error("unit {}: cannot write {} values in {}; the unit has {} values in {}", unit.name(),
                values.count(), name_of(values.dtype()), unit.layout().count(), name_of(dtype_));
  const auto host = read(unit.device(), values);
  for (std::size_t i = 0; i < names_.tensors.size(); ++i) {
    const NamedTensor& tensor = names_.tensors[i];
    if (tensor.source != NamedTensor::Source::parameter ||
        model_.units[tensor.unit]->name() != unit.name())
      continue;
    writer_.write(i, size_of(dtype_) == 4 ? arranged<std::uint32_t>(tensor, host)
                                          : arranged<std::uint16_t>(tensor, host));
  }
}

void WeightsFile::finish(std::int64_t steps) {
  for (std::size_t i = 0; i < names_.tensors.size(); ++i) {
    const NamedTensor& tensor = names_.tensors[i];
    const Unit& unit = *model_.units[tensor.unit];
    if (tensor.source == NamedTensor::Source::counter)
      writer_.write(i, std::as_bytes(std::span(&steps, 1)));
    else if (tensor.source == NamedTensor::Source::statistic)
      writer_.write(i, read(unit.device(), unit.statistics()[tensor.statistic].values));
  }
  writer_.finish();
}

}  // namespace ringside
