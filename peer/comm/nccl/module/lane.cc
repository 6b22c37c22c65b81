// Marks around what runs on a stream beside compute.
#include "peer/comm/nccl/module/lane.h"

#include "core/base/error.h"

namespace ringside::peer {
namespace {

void check(int ordinal, cudaError_t status, const char* call) {
  if (status != cudaSuccess)
    throw Error("gpu {}: {}: {}: {}", ordinal, call, cudaGetErrorName(status),
                cudaGetErrorString(status));
}

}  // namespace

Lane::Lane(cuda::CudaDevice& device) : device_(device) {
  const int gpu = device.ordinal();
  check(gpu, cudaSetDevice(gpu), "cudaSetDevice");
  int lowest = 0, highest = 0;
  check(gpu, cudaDeviceGetStreamPriorityRange(&lowest, &highest),
        "cudaDeviceGetStreamPriorityRange");
  check(gpu, cudaStreamCreateWithPriority(&stream_, cudaStreamNonBlocking, highest),
        "cudaStreamCreateWithPriority");
}

Mark Lane::begin_after(const Mark& mark) {
  device_.wait_on(stream_, mark);
  return device_.mark_on(stream_);
}

void Lane::end(std::span<const OperationPtr> operations, const Mark& begin) {
  const Mark end = device_.mark_on(stream_);
  for (const OperationPtr& operation : operations) {
    operation->span = {begin, end};
    operation->launched = true;
    under_way_.push_back(operation);
  }
}

const Operation* Lane::first() {
  while (!under_way_.empty() && device_.reached(under_way_.front()->span.end))
    under_way_.pop_front();
  return under_way_.empty() ? nullptr : under_way_.front().get();
}

const Operation* Lane::overdue(double now, double timeout_s) {
  if (!first()) return nullptr;
  Operation& operation = *under_way_.front();
  if (operation.begun_at < 0) {
    if (device_.reached(operation.span.begin)) operation.begun_at = now;
    return nullptr;
  }
  return now - operation.begun_at > timeout_s ? &operation : nullptr;
}

}  // namespace ringside::peer
