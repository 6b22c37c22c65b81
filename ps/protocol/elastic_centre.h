// ElasticCentre: the update of a server with easgd.
#pragma once

#include <utility>

#include "core/device/device.h"

namespace ringside::ps {

/// The server's parameters are the centre c. A worker pushes its own values x, and c += moving_rate
/// * d with d = x - c. The reply to the push carries d, and the worker sets x -= moving_rate * d.
/// Values and d are fp32.
class ElasticCentre {
 public:
  /// The device outlives this object.
  ElasticCentre(Device& device, double moving_rate)
      : device_(device), moving_rate_(static_cast<float>(moving_rate)) {}

  void move(const Tensor& centre, const Tensor& values) {
    const Kernels& kernels = device_.kernels();
    difference_ = device_.tensor(values.shape(), MemoryKind::communication, values.dtype());
    kernels.copy({.in = values, .out = difference_});
    kernels.blend({.in = centre, .out = difference_, .in_scale = -1, .out_scale = 1});
    kernels.blend({.in = difference_, .out = centre, .in_scale = moving_rate_, .out_scale = 1});
  }
  /// The difference d of the latest move, until it is forgotten; then empty.
  const Tensor& difference() const { return difference_; }
  void forget() { difference_ = {}; }

 private:
  Device& device_;
  float moving_rate_;
  Tensor difference_;
};

}  // namespace ringside::ps
