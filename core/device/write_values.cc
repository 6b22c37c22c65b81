#include "core/device/write_values.h"

#include <algorithm>
#include <vector>

#include "core/base/error.h"

namespace ringside {
namespace {

template <class Rounded>
void write_rounded(Device& device, const Tensor& out, std::span<const float> values,
                   Rounded (*round)(float)) {
  std::vector<Rounded> rounded(values.size());
  std::transform(values.begin(), values.end(), rounded.begin(), round);
  device.write(out, std::as_bytes(std::span(rounded)));
}

}  // namespace

void write_values(Device& device, const Tensor& out, std::span<const float> values) {
  switch (out.dtype()) {
    case DType::f32:
      return device.write(out, std::as_bytes(values));
    case DType::bf16:
      return write_rounded(device, out, values, to_bf16);
    case DType::f16:
      return write_rounded(device, out, values, to_fp16);
    default:
      throw Error("values cannot be written to a tensor of {}; choose fp32, bf16 or fp16",
                  name_of(out.dtype()));
  }
}

}  // namespace ringside
