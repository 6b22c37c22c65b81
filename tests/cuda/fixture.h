// A fixture for tests that need a GPU.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/device/cuda/cuda.h"
#include "tests/support/complaint.h"

namespace ringside {

/// Skips its tests if the machine has no GPU.
class OnGpu : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto machine = cuda::look_at_machine();
    if (!machine.cause.empty()) GTEST_SKIP() << machine.cause;
    device_ = cuda::make_cuda_device({});
    // Uses kernels and pinned memory once before the test. Their first use may make the driver wait
    // for all streams, also for those that a test makes stand still.
    const Tensor sum = filled(5000, 0);
    device_->kernels().add({.in = filled(5000, 0), .out = sum});
    device_->kernels().copy({.in = filled(5000, 0), .out = sum});
    values_of(sum);
    const auto staging = device_->staging();
    std::vector<std::unique_ptr<Outgoing>> copies;
    for (int i = 0; i < 16; ++i) copies.push_back(staging->out(sum));
    for (const auto& copy : copies) copy->wait();
  }

  cuda::CudaDevice& device() const { return *device_; }

  /// Makes a tensor and enqueues a kernel that fills it with `value`.
  Tensor filled(std::int64_t count, float value, MemoryKind kind = MemoryKind::activation) const {
    const Tensor out = device_->tensor({count}, kind);
    device_->kernels().fill({.out = out, .value = value});
    return out;
  }
  Tensor uploaded(const std::vector<float>& values) const {
    const Tensor out =
        device_->tensor({static_cast<std::int64_t>(values.size())}, MemoryKind::activation);
    device_->write(out, std::as_bytes(std::span(values)));
    return out;
  }
  std::vector<float> values_of(const Tensor& tensor) const {
    std::vector<float> out(static_cast<std::size_t>(tensor.count()));
    device_->read(tensor, std::as_writable_bytes(std::span(out)));
    return out;
  }

 private:
  std::unique_ptr<cuda::CudaDevice> device_;
};

}  // namespace ringside
