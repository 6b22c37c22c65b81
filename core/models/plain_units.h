// Units of plain convolutional networks, AlexNet and VGG: convolutions, then linear layers.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/models/model_config.h"
#include "core/nn/convolution.h"
#include "core/nn/pooling.h"

namespace ringside::plain {

/// A convolution with bias and relu. Without `init` its values begin as Convolution says.
struct Layer {
  std::string name;
  std::int64_t in, out;
  Kernel2d kernel;
  std::optional<Init> init = {};
};

/// `layers` one after the other, a max pool, and dropout with probability `dropout`. If `first`,
/// the unit is the model's first: it takes images of the data set, whose gradient it does not
/// compute.
std::unique_ptr<Unit> make_stage(const std::string& name, const ModelConfig& config, bool first,
                                 const std::vector<Layer>& layers, Window2d pool, double dropout,
                                 Device& device);

/// A linear layer with its initial values, relu if `relu`, and dropout.
struct Dense {
  std::string name;  // of the unit and of the layer
  std::int64_t in, out;
  Init weight, bias;
  bool relu;
  double dropout;
};
/// Maps [B, ...], `in` elements for each sample, to [B, out].
std::unique_ptr<Unit> make_dense(const Dense& dense, Device& device);

}  // namespace ringside::plain
