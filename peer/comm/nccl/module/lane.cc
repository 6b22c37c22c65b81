// Operations on the lane's stream, each between two marks, and the watch for their ends.
#include "peer/comm/nccl/module/lane.h"

#include "core/base/error.h"

namespace ringside::peer {
namespace {

void check(int ordinal, cudaError_t status, const char* call) {
  if (status != cudaSuccess)
    throw Error("gpu {}: {}: {}: {}", ordinal, call, cudaGetErrorName(status),
                cudaGetErrorString(status));
}

constexpr const char* advice =
    "another rank failed or is late; see what that rank says, or raise train.timeout_s";

}  // namespace

Lane::Lane(cuda::CudaDevice& device, Handle handle, double timeout_s,
           std::function<std::string()> others)
    : device_(device),
      handle_(std::move(handle)),
      timeout_s_(timeout_s),
      others_(std::move(others)) {
  const int gpu = device.ordinal();
  check(gpu, cudaSetDevice(gpu), "cudaSetDevice");
  int lowest = 0, highest = 0;
  check(gpu, cudaDeviceGetStreamPriorityRange(&lowest, &highest),
        "cudaDeviceGetStreamPriorityRange");
  check(gpu, cudaStreamCreateWithPriority(&stream_, cudaStreamNonBlocking, highest),
        "cudaStreamCreateWithPriority");
}

Lane::~Lane() {
  handle_.abort();  // before the stream is destroyed, because NCCL may still use it
  cudaStreamDestroy(stream_);
}

void Lane::launch(const OperationPtr& operation, const Mark& mark,
                  const std::function<ncclResult_t()>& call) {
  is_busy();  // removes operations that have ended
  device_.wait_on(stream_, mark);
  begin_ = device_.mark_on(stream_);
  launching_ = operation;
  since_ = device_.clock().now();
  if (operation->in.count() > 0) handle_.is_through(call(), operation->what);
}

bool Lane::is_through() {
  if (!launching_) return true;
  if (launching_->in.count() > 0 && !handle_.is_through(ncclInProgress, launching_->what)) {
    if (device_.clock().now() - since_ > timeout_s_) fail_late(*launching_, "did not begin");
    return false;
  }
  launching_->span = {begin_, device_.mark_on(stream_)};
  launching_->launched = true;
  under_way_.push_back(std::exchange(launching_, nullptr));
  return true;
}

void Lane::look() {
  if (!is_busy()) return;
  Operation& first = *under_way_.front();
  handle_.is_through(ncclInProgress, first.what);
  const double now = device_.clock().now();
  if (first.begun_at < 0) {
    if (device_.reached(first.span.begin)) first.begun_at = now;
  } else if (now - first.begun_at > timeout_s_) {
    fail_late(first, "did not end");
  }
}

void Lane::fail_late(const Operation& operation, const char* did_not) const {
  const std::string others = others_ ? others_() : std::string();
  throw Error("{}: {} {} within {} s: {}{}{}", handle_.self().place, operation.what, did_not,
              timeout_s_, others, others.empty() ? "" : "; ", advice);
}

bool Lane::is_busy() {
  while (!under_way_.empty() && device_.reached(under_way_.front()->span.end))
    under_way_.pop_front();
  return !under_way_.empty();
}

}  // namespace ringside::peer
