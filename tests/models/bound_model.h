// A model with its own ranges of parameters and gradients, for tests of units and models.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "core/device/cpu/cpu_device.h"
#include "core/models/gpt.h"
#include "core/models/mlp.h"
#include "core/num/random.h"
#include "tests/support/micro_batch.h"

namespace ringside {

inline Tensor upload(Device& device, const std::vector<float>& from, Shape shape) {
  Tensor out = device.tensor(shape, MemoryKind::workspace);
  device.write(out, std::as_bytes(std::span(from)));
  return out;
}

inline std::vector<float> download(const Tensor& t) {
  const auto s = t.span<float>();
  return {s.begin(), s.end()};
}

inline std::vector<float> normals(std::int64_t count, std::uint64_t seed, double scale = 1) {
  std::vector<float> out(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < out.size(); ++i)
    out[i] = static_cast<float>(scale * random_normal(seed, Stream::synthetic_data, i));
  return out;
}

inline double dot(std::span<const float> a, std::span<const float> b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += static_cast<double>(a[i]) * b[i];
  return sum;
}

/// A model whose parameters are initial values plus noise, so that biases and norms matter.
struct BoundModel {
  BoundModel(Device& d, Model m) : device(d), model(std::move(m)) {
    for (std::size_t i = 0; i < model.units.size(); ++i) {
      Unit& unit = *model.units[i];
      const std::int64_t count = unit.layout().count();
      parameters.push_back(device.tensor({count}, MemoryKind::parameter));
      gradients.push_back(device.tensor({count}, MemoryKind::gradient));
      initialise(unit, model.first_parameter(i), 1, 0, parameters[i]);
      const auto noise = normals(count, 50 + i, 0.2);
      const auto values = parameters[i].span<float>();
      for (std::size_t e = 0; e < values.size(); ++e) values[e] += noise[e];
      unit.bind(parameters[i], gradients[i]);
    }
  }

  /// The gradients of all units, one after the other.
  std::vector<float> all_gradients() const {
    std::vector<float> out;
    for (const Tensor& g : gradients)
      for (float v : download(g)) out.push_back(v);
    return out;
  }

  Device& device;
  Model model;
  std::vector<Tensor> parameters, gradients;
};

inline Tensor tokens_of(Device& device, std::int64_t samples, std::int64_t positions,
                        std::int64_t vocabulary, std::uint64_t seed) {
  Tensor out = device.tensor({samples, positions}, MemoryKind::data, DType::i32);
  std::vector<std::int32_t> values(static_cast<std::size_t>(out.count()));
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<std::int32_t>(random_bits(seed, Stream::synthetic_data, i) %
                                          static_cast<std::uint64_t>(vocabulary));
  device.write(out, std::as_bytes(std::span(values)));
  return out;
}

}  // namespace ringside
