#include "core/device/on_host.h"

namespace ringside {
namespace {

std::int64_t bytes_of(const std::vector<Tensor>& tensors) {
  std::int64_t bytes = 0;
  for (const Tensor& tensor : tensors) bytes += static_cast<std::int64_t>(tensor.bytes());
  return bytes;
}

}  // namespace

HostValues::HostValues(const std::vector<Tensor>& tensors) {
  for (const Tensor& tensor : tensors) bytes_.emplace_back(tensor.bytes());
}

void on_host(Device& device, const std::vector<Tensor>& in, const std::vector<Tensor>& out,
             const OpCost& cost, const std::function<void(HostValues& in, HostValues& out)>& work) {
  const bool computes = device.has_values();
  HostValues given(computes ? in : std::vector<Tensor>());
  HostValues made(computes ? out : std::vector<Tensor>());
  for (std::size_t i = 0; computes && i < in.size(); ++i) device.read(in[i], given.bytes(i));
  device.pass_copy(Device::Copied::to_host, bytes_of(in));
  device.host_work(cost, [&] { work(given, made); });
  device.pass_copy(Device::Copied::to_device, bytes_of(out));
  for (std::size_t i = 0; computes && i < out.size(); ++i) device.write(out[i], made.bytes(i));
}

}  // namespace ringside
