// Golden values of algorithms in float64, and tensors of sines, for the tests that share them.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <vector>

#include "core/device/cpu/cpu_device.h"
#include "core/device/write_values.h"

namespace ringside::testing {

inline constexpr int algorithm_steps = 20, algorithm_workers = 3;

inline std::vector<float> sines(std::int64_t count, double phase, float scale = 1) {
  std::vector<float> out;
  for (std::int64_t i = 0; i < count; ++i)
    out.push_back(scale * static_cast<float>(std::sin(phase + 0.37 * static_cast<double>(i))));
  return out;
}

inline double phase_of(int worker, int step) { return 1.3 * worker + 0.61 * step; }

/// A test that holds what a scheme shares with its definition against golden/algorithms.json, which
/// make_algorithms.py has made.
class AlgorithmsTest : public ::testing::Test {
 protected:
  static nlohmann::json golden(const char* name) {
    std::ifstream in(RINGSIDE_GOLDEN "/algorithms.json");
    return nlohmann::json::parse(in).at(name);
  }
  Tensor made(const std::vector<float>& values) const {
    const Tensor out =
        device_->tensor({static_cast<std::int64_t>(values.size())}, MemoryKind::gradient);
    write_values(*device_, out, values);
    return out;
  }
  Tensor zeros(std::int64_t count) const {
    return made(std::vector<float>(static_cast<std::size_t>(count)));
  }
  Tensor sum_of(const std::vector<Tensor>& messages) const {
    const Tensor sum = zeros(messages[0].count());
    for (const Tensor& message : messages) device_->kernels().add({.in = message, .out = sum});
    return sum;
  }
  /// The norm of the difference divided by the norm of `expected`.
  static double distance(const Tensor& actual, const std::vector<double>& expected) {
    double difference = 0, norm = 0;
    for (std::size_t i = 0; i < expected.size(); ++i) {
      difference += std::pow(double{actual.data<float>()[i]} - expected[i], 2);
      norm += expected[i] * expected[i];
    }
    return std::sqrt(difference / norm);
  }

  const std::unique_ptr<Device> device_ = make_cpu_device(1);
};

}  // namespace ringside::testing
