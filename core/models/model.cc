#include "core/models/model.h"

#include <algorithm>
#include <span>

#include "core/base/error.h"
#include "core/base/random.h"

namespace ringside {
namespace {

float initial_value(const Init& init, std::uint64_t seed, std::uint64_t position) {
  switch (init.kind) {
    case Init::Kind::constant:
      return init.value;
    case Init::Kind::normal:
      return static_cast<float>(random_normal(seed, Stream::parameters, position)) * init.value;
    case Init::Kind::uniform:
      return static_cast<float>(2 * random_uniform(seed, Stream::parameters, position) - 1) *
             init.value;
  }
  throw Error("initial value {}: no such kind", static_cast<int>(init.kind));
}

}  // namespace

std::int64_t Model::parameter_count() const { return first_parameter(units.size()); }

std::int64_t Model::first_parameter(std::size_t unit) const {
  std::int64_t first = 0;
  for (std::size_t i = 0; i < unit; ++i) first += units[i]->layout().count();
  return first;
}

void check_positive(const ModelConfig& config) {
  visit_fields(const_cast<ModelConfig&>(config),  // a visitor that only reads
               [](std::string_view name, auto& value, std::string_view) {
                 if constexpr (std::is_same_v<decltype(value), std::int64_t&>)
                   if (value < 1)
                     throw Error("model.{} = {} is too small; it has to be 1 or more", name, value);
               });
}

void initialise(const Unit& unit, std::int64_t first_parameter, std::uint64_t seed,
                std::int64_t begin, const Tensor& out) {
  constexpr std::int64_t chunk_elements = 1 << 16;
  const std::int64_t end = begin + out.count();
  if (begin < 0 || end > unit.layout().count())
    throw Error("unit {}: initial values of elements {} to {} are asked for, it has {}",
                unit.name(), begin, end, unit.layout().count());
  if (!unit.device().has_values()) return;
  std::vector<float> chunk;
  std::vector<bf16> rounded;
  for (const Parameter& parameter : unit.layout().parameters()) {
    const std::int64_t stop = std::min(end, parameter.begin + parameter.shape.count());
    std::int64_t at = std::max(begin, parameter.begin);
    while (at < stop) {
      const std::int64_t count = std::min(chunk_elements, stop - at);
      chunk.resize(static_cast<std::size_t>(count));
      for (std::int64_t i = 0; i < count; ++i)
        chunk[static_cast<std::size_t>(i)] = initial_value(
            parameter.init, seed, static_cast<std::uint64_t>(first_parameter + at + i));
      const Tensor part = out.range(at - begin, count);
      if (out.dtype() == DType::bf16) {
        rounded.resize(chunk.size());
        std::transform(chunk.begin(), chunk.end(), rounded.begin(), to_bf16);
        unit.device().write(part, std::as_bytes(std::span(rounded)));
      } else {
        unit.device().write(part, std::as_bytes(std::span(chunk)));
      }
      at += count;
    }
  }
}

}  // namespace ringside
