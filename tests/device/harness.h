// Parts that tests of kernels share: the devices under test, operands, comparison.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "core/device/device.h"
#include "core/num/exact_sum.h"
#include "core/num/random.h"
#include "tests/device/reference.h"

namespace ringside {

/// A device to test. The kernels of layers (linear, attention, ...) are tested in each dtype of
/// `layer_dtypes`; flat operations, which ignore the shape of a tensor, in fp32, bf16 and fp16.
struct DeviceCase {
  std::string name;
  std::unique_ptr<Device> (*make)();
  std::vector<DType> layer_dtypes = {DType::f32};
  /// Whether a convolution of another shape, bias or relu costs the device a plan of its own, which
  /// takes up to half a second (cuDNN compiles it). Tests then try fewer of these together.
  bool plans_convolutions = false;
  /// Why the device is not on this machine; empty if it is.
  std::string (*missing)() = [] { return std::string(); };
};
/// The devices that the test program tests. Each program defines this function in a file of its
/// own, such as tests/device/devices.cc.
std::vector<DeviceCase> devices_under_test();

/// A device and the dtype in which it computes.
struct KernelCase {
  DeviceCase device;
  DType dtype = DType::f32;

  std::string name() const { return device.name + "_" + std::string(name_of(dtype)); }
};
inline void PrintTo(const KernelCase& kernels, std::ostream* out) { *out << kernels.name(); }
inline std::string case_name(const ::testing::TestParamInfo<KernelCase>& info) {
  return info.param.name();
}

inline std::vector<KernelCase> layers_under_test() {
  std::vector<KernelCase> cases;
  for (const auto& device : devices_under_test())
    for (const auto dtype : device.layer_dtypes) cases.push_back({device, dtype});
  return cases;
}
inline std::vector<KernelCase> flat_operations_under_test() {
  std::vector<KernelCase> cases;
  for (const auto& device : devices_under_test())
    for (const auto dtype : {DType::f32, DType::bf16, DType::f16}) cases.push_back({device, dtype});
  return cases;
}

class KernelsOnDevice : public ::testing::TestWithParam<KernelCase> {
 protected:
  using Values = reference::Values;

  void SetUp() override {
    const DeviceCase& device = GetParam().device;
    const std::string cause = device.missing();
    if (!cause.empty()) GTEST_SKIP() << device.name << ": " << cause;
    device_ = device.make();
  }

  const Kernels& kernels() const { return device_->kernels(); }
  Device& device() const { return *device_; }
  DType dtype() const { return GetParam().dtype; }

  /// The values, rounded to the dtype of the case.
  Values held(Values values) const { return reference::rounded(std::move(values), dtype()); }
  /// Standard normal numbers that the dtype of the case holds exactly.
  Values normal(std::int64_t count) { return held(normal_f32(count)); }
  Values normal_f32(std::int64_t count) {
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

  /// A tensor with these values: of the given dtype, or else of the dtype of the case.
  Tensor upload(Shape shape, const Values& values, DType dtype) {
    Tensor out = device_->tensor(shape, MemoryKind::activation, dtype);
    const std::vector<float> host(values.begin(), values.end());
    if (dtype == DType::bf16)
      write_as<bf16>(out, host, to_bf16);
    else if (dtype == DType::f16)
      write_as<fp16>(out, host, to_fp16);
    else if (dtype == DType::f64)
      device_->write(out, std::as_bytes(std::span(values)));
    else
      device_->write(out, std::as_bytes(std::span(host)));
    return out;
  }
  Tensor upload(Shape shape, const Values& values) { return upload(shape, values, dtype()); }
  Tensor upload(Shape shape, const std::vector<std::int32_t>& values) {
    Tensor out = device_->tensor(shape, MemoryKind::data, DType::i32);
    device_->write(out, std::as_bytes(std::span(values)));
    return out;
  }
  /// A tensor full of NaN, so that elements that an operation does not overwrite are noticed.
  Tensor output(Shape shape, DType dtype) {
    return upload(shape, Values(static_cast<std::size_t>(shape.count()), NAN), dtype);
  }
  Tensor output(Shape shape) { return output(shape, dtype()); }
  Tensor output_f32(Shape shape) { return output(shape, DType::f32); }
  /// A tensor full of NaN for `count` sums, in the form in which ExactSum stores sums.
  Tensor output_sums(std::int64_t count) {
    return output({count, static_cast<std::int64_t>(ExactSum::digits)}, DType::f64);
  }

  std::vector<float> download(const Tensor& tensor) const {
    if (tensor.dtype() == DType::bf16)
      return read_as<bf16>(tensor, [](bf16 value) { return to_float(value); });
    if (tensor.dtype() == DType::f16)
      return read_as<fp16>(tensor, [](fp16 value) { return to_float(value); });
    if (tensor.dtype() == DType::f64)
      return read_as<double>(tensor, [](double value) { return static_cast<float>(value); });
    if (tensor.dtype() == DType::u8)
      return read_as<std::uint8_t>(tensor,
                                   [](std::uint8_t value) { return static_cast<float>(value); });
    return read_as<float>(tensor, [](float value) { return value; });
  }

  /// The values of sums that are stored in the form of ExactSum.
  Values sums_in(const Tensor& stored) const {
    Values doubles(static_cast<std::size_t>(stored.count())), out;
    device_->read(stored, std::as_writable_bytes(std::span(doubles)));
    for (std::size_t i = 0; i < doubles.size() / ExactSum::digits; ++i)
      out.push_back(ExactSum::value(doubles, i));
    return out;
  }

  /// The norm of `actual` - `expected`, divided by the norm of `expected` unless that norm is 0.
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

  /// The largest distance() that a result may have from the values computed in float64. It depends
  /// on the result's own dtype, not on that of the case: a result that is stored in fp32 was also
  /// computed in fp32, even if the case has 16 bits.
  static double tolerance(const Tensor& actual) {
    return actual.dtype() == DType::bf16 ? 2e-2 : actual.dtype() == DType::f16 ? 4e-3 : 1e-5;
  }

 private:
  template <class T, class Convert>
  void write_as(const Tensor& to, const std::vector<float>& values, const Convert& convert) {
    std::vector<T> host;
    for (const float value : values) host.push_back(convert(value));
    device_->write(to, std::as_bytes(std::span(host)));
  }
  template <class T, class Convert>
  std::vector<float> read_as(const Tensor& from, const Convert& convert) const {
    std::vector<T> host(static_cast<std::size_t>(from.count()));
    device_->read(from, std::as_writable_bytes(std::span(host)));
    std::vector<float> out;
    for (const T value : host) out.push_back(convert(value));
    return out;
  }

  std::unique_ptr<Device> device_;
  std::uint64_t position_ = 0;
};

#define EXPECT_CLOSE(actual, expected) EXPECT_LT(distance(actual, expected), tolerance(actual))

}  // namespace ringside
