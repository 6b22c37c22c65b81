#include "core/models/tensor_names.h"

#include <algorithm>
#include <optional>

#include "core/base/error.h"

namespace ringside::naming {
namespace {

/// Returns what stands at the '*' of `pattern`, or nothing if the name does not match.
std::optional<std::string> match(std::string_view pattern, std::string_view name) {
  const auto star = pattern.find('*');
  if (star == std::string_view::npos)
    return pattern == name ? std::optional<std::string>("") : std::nullopt;
  if (!name.starts_with(pattern.substr(0, star))) return {};
  return std::string(name.substr(star));
}

std::string filled(std::string_view pattern, const std::string& number) {
  std::string out(pattern);
  if (const auto star = out.find('*'); star != std::string::npos) out.replace(star, 1, number);
  return out;
}

/// Sets the extents and strides of `tensor` for a file that has the axes of its shape in another
/// order: axis i in the file is axis axes[i] of the shape.
void store_axes(NamedTensor& tensor, std::initializer_list<std::size_t> axes) {
  tensor.extents.clear();
  for (const std::size_t axis : axes) tensor.extents.push_back(tensor.shape[axis]);
  std::int64_t stride = 1;
  for (auto axis = std::rbegin(axes); axis != std::rend(axes); ++axis) {
    tensor.strides[*axis] = stride;
    stride *= tensor.shape[*axis];
  }
}

void store_same(NamedTensor& tensor) {
  switch (tensor.shape.rank()) {
    case 1:
      return store_axes(tensor, {0});
    case 2:
      return store_axes(tensor, {0, 1});
    case 3:
      return store_axes(tensor, {0, 1, 2});
    default:
      return store_axes(tensor, {0, 1, 2, 3});
  }
}

/// Stores [K, R, S, C] as [K, C, R, S].
void store_channels_first(NamedTensor& tensor) { store_axes(tensor, {0, 3, 1, 2}); }

NamedTensor named_by(const Rule& rule, const std::string& number, std::size_t unit,
                     const Parameter& parameter) {
  NamedTensor out{.name = filled(rule.name, number),
                  .unit = unit,
                  .begin = parameter.begin,
                  .shape = parameter.shape};
  if (rule.parts > 1) {
    const std::int64_t rows = parameter.shape[0] / rule.parts;
    const std::int64_t columns = parameter.shape.count() / parameter.shape[0];
    out.shape =
        parameter.shape.rank() == 1 ? Shape{rule.count * rows} : Shape{rule.count * rows, columns};
    out.begin += rule.part * rows * columns;
  }
  out.tokens = rule.order == Order::tokens;
  if (rule.order == Order::joined_columns)
    out.shape = {out.shape[0], out.shape.count() / out.shape[0]};
  if (rule.order == Order::transposed)
    store_axes(out, {1, 0});
  else if (rule.order == Order::channels_first)
    store_channels_first(out);
  else
    store_same(out);
  return out;
}

}  // namespace

std::vector<NamedTensor> by_rules(const Model& model, std::span<const Rule> rules) {
  std::vector<NamedTensor> out;
  for (std::size_t u = 0; u < model.units.size(); ++u) {
    const Unit& unit = *model.units[u];
    for (const Parameter& parameter : unit.layout().parameters()) {
      const std::size_t before = out.size();
      for (const Rule& rule : rules)
        if (const auto number = match(rule.unit, unit.name());
            number && rule.parameter == parameter.name)
          out.push_back(named_by(rule, *number, u, parameter));
      if (out.size() == before)
        throw Error("unit {}: files of weights cannot hold parameter {}", unit.name(),
                    parameter.name);
    }
  }
  return out;
}

std::size_t index_of(const Names& names, std::string_view name) {
  const auto at = std::find_if(names.tensors.begin(), names.tensors.end(),
                               [&](const NamedTensor& tensor) { return tensor.name == name; });
  if (at == names.tensors.end()) throw Error("there is no tensor {}", name);
  return static_cast<std::size_t>(at - names.tensors.begin());
}

std::vector<NamedTensor> torchvision_layers(const Model& model, std::int64_t channels,
                                            std::string_view first_linear) {
  std::vector<NamedTensor> out;
  for (std::size_t u = 0; u < model.units.size(); ++u)
    for (const Parameter& parameter : model.units[u]->layout().parameters()) {
      NamedTensor tensor{.name = parameter.name, .unit = u, .begin = parameter.begin};
      tensor.shape = parameter.shape;
      const Shape& shape = parameter.shape;
      if (parameter.name == first_linear) {
        tensor.shape = {shape[0], shape[1] / channels, 1, channels};
        store_channels_first(tensor);
        tensor.extents = {shape[0], shape[1]};
      } else if (shape.rank() == 4) {
        store_channels_first(tensor);
      } else {
        store_same(tensor);
      }
      if (shape.rank() == 4) channels = shape[0];
      out.push_back(tensor);
    }
  return out;
}

std::vector<NamedTensor> torchvision_modules(const Model& model) {
  std::vector<NamedTensor> out;
  for (std::size_t u = 0; u < model.units.size(); ++u) {
    const Unit& unit = *model.units[u];
    const bool alone = unit.name().starts_with("stem") || unit.name() == "head";
    const std::string prefix = alone ? "" : unit.name() + ".";
    for (const Parameter& parameter : unit.layout().parameters()) {
      NamedTensor& tensor = out.emplace_back(
          NamedTensor{.name = prefix + parameter.name, .unit = u, .begin = parameter.begin});
      tensor.shape = parameter.shape;
      if (parameter.shape.rank() == 4)
        store_channels_first(tensor);
      else
        store_same(tensor);
    }
    for (std::size_t s = 0; s < unit.statistics().size(); ++s) {
      const Unit::Statistic& statistic = unit.statistics()[s];
      NamedTensor tensor{.name = prefix + statistic.name,
                         .source = NamedTensor::Source::statistic,
                         .unit = u,
                         .statistic = s,
                         .shape = statistic.values.shape()};
      store_same(tensor);
      out.push_back(tensor);
      if (const auto at = tensor.name.rfind("running_var"); at != std::string::npos)
        out.push_back({.name = tensor.name.substr(0, at) + "num_batches_tracked",
                       .source = NamedTensor::Source::counter,
                       .unit = u,
                       .statistic = s});
    }
  }
  return out;
}

}  // namespace ringside::naming
