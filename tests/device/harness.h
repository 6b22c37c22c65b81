// What tests of kernels share: the devices under test, operands, comparison.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <ostream>
#include <string>
#include <vector>

#include "core/base/random.h"
#include "core/device/cpu/cpu_device.h"
#include "core/device/device.h"
#include "core/device/sim/sim_device.h"
#include "tests/device/reference.h"
#include "tests/support/small_cluster.h"

namespace ringside {

/// One row a device; every test of kernels runs on every row.
struct DeviceCase {
  std::string name;
  std::unique_ptr<Device> (*make)();
};
inline void PrintTo(const DeviceCase& device, std::ostream* out) { *out << device.name; }

inline std::vector<DeviceCase> devices_under_test() {
  return {{"cpu", [] { return make_cpu_device(1); }},
          {"cpu_two_threads", [] { return make_cpu_device(2); }},
          {"sim_with_numerics", []() -> std::unique_ptr<Device> {
             return sim::make_sim_device(testing::small_cluster(1), nullptr, {0, 0},
                                         make_cpu_device(1));
           }}};
}

class KernelsOnDevice : public ::testing::TestWithParam<DeviceCase> {
 protected:
  using Values = reference::Values;

  const Kernels& kernels() const { return device_->kernels(); }
  Device& device() const { return *device_; }

  /// Standard normal numbers that fp32 holds exactly.
  Values normal(std::int64_t count) {
    Values out(static_cast<std::size_t>(count));
    for (auto& value : out)
      value = static_cast<float>(random_normal(7, Stream::synthetic_data, position_++));
    return out;
  }
  std::vector<std::int32_t> integers(std::int64_t count, std::int64_t below) {
    std::vector<std::int32_t> out(static_cast<std::size_t>(count));
    for (auto& value : out)
      value = static_cast<std::int32_t>(random_bits(7, Stream::synthetic_data, position_++) %
                                        static_cast<std::uint64_t>(below));
    return out;
  }

  Tensor upload(Shape shape, const Values& values) {
    const std::vector<float> host(values.begin(), values.end());
    Tensor out = device_->tensor(shape, MemoryKind::activation);
    device_->write(out, std::as_bytes(std::span(host)));
    return out;
  }
  Tensor upload(Shape shape, const std::vector<std::int32_t>& values) {
    Tensor out = device_->tensor(shape, MemoryKind::data, DType::i32);
    device_->write(out, std::as_bytes(std::span(values)));
    return out;
  }
  /// Full of NaN: what an operation does not overwrite shows.
  Tensor output(Shape shape) {
    return upload(shape, Values(static_cast<std::size_t>(shape.count()), NAN));
  }
  std::vector<float> download(const Tensor& tensor) const {
    std::vector<float> out(static_cast<std::size_t>(tensor.count()));
    device_->read(tensor, std::as_writable_bytes(std::span(out)));
    return out;
  }

  /// The distance of the two, relative to the norm of what is expected.
  double distance(const Tensor& actual, const Values& expected) const {
    const auto values = download(actual);
    if (values.size() != expected.size()) return INFINITY;
    double squares = 0, norm = 0;
    for (std::size_t i = 0; i < values.size(); ++i) {
      squares += (values[i] - expected[i]) * (values[i] - expected[i]);
      norm += expected[i] * expected[i];
    }
    return norm == 0 ? std::sqrt(squares) : std::sqrt(squares / norm);
  }

 private:
  std::unique_ptr<Device> device_ = GetParam().make();
  std::uint64_t position_ = 0;
};

#define EXPECT_CLOSE(actual, expected) EXPECT_LT(distance(actual, expected), 1e-5)

inline std::string case_name(const ::testing::TestParamInfo<DeviceCase>& info) {
  return info.param.name;
}

}  // namespace ringside
