#include "core/device/cuda/runtime/cuda_staging.h"

#include <cstring>

#include "core/device/cuda/runtime/check.h"

namespace ringside::cuda {
namespace {

class PinnedCopy final : public Outgoing {
 public:
  PinnedCopy(const StagingParts& parts, Tensor source, Tensor host,
             std::shared_ptr<const Event> copied, cudaStream_t compute)
      : waits_(parts.waits),
        source_(std::move(source)),
        host_(std::move(host)),
        copied_(std::move(copied)),
        compute_(compute) {}

  ~PinnedCopy() override {
    // The compute stream may reuse the source's memory. If the copy is still under way, that stream
    // has to wait for it; otherwise later work could overwrite the source. Errors do not matter: a
    // broken context copies nothing any more.
    if (source_) cudaStreamWaitEvent(compute_, copied_->get(), 0);
  }

  bool ready() override {
    if (source_ && copied_->reached()) source_ = {};
    return !source_;
  }

  void wait() override {
    waits_.until([this] { return ready(); });
  }

  const Tensor& host() const override { return host_; }

 private:
  Waits& waits_;
  Tensor source_;  // empty once the copy is complete
  Tensor host_;
  std::shared_ptr<const Event> copied_;
  cudaStream_t compute_;
};

class CudaStaging final : public Staging {
 public:
  explicit CudaStaging(const StagingParts& parts)
      : parts_(parts), compute_(static_cast<cudaStream_t>(parts.device.compute_stream())) {}

  std::unique_ptr<Outgoing> out(const Tensor& tensor) override {
    make_current();
    Event(parts_.events, compute_).hold(out_.get());
    const PinnedCache::Block block = parts_.pinned.take(tensor.bytes());
    if (tensor.bytes() > 0)
      check(cudaMemcpyAsync(block.data, tensor.data<std::uint8_t>(), tensor.bytes(),
                            cudaMemcpyDeviceToHost, out_.get()),
            "cudaMemcpyAsync");
    auto copied = std::make_shared<const Event>(parts_.events, out_.get());
    auto release = [&pinned = parts_.pinned, block, copied] { pinned.give_back(block, copied); };
    auto buffer = std::make_shared<Buffer>(block.data, tensor.bytes(), MemoryKind::communication,
                                           SymmetricAddress{}, std::move(release));
    return std::make_unique<PinnedCopy>(
        parts_, tensor, Tensor(buffer, 0, tensor.shape(), tensor.dtype()), copied, compute_);
  }

  Tensor in(const Tensor& host) override {
    make_current();
    const std::size_t bytes = host.bytes();
    // Allocated on the stream of the copies and not on the compute stream, so that the copy need
    // not wait for compute.
    const Tensor tensor(parts_.allocate(bytes, in_.get()), 0, host.shape(), host.dtype());
    if (bytes > 0) {
      const PinnedCache::Block block = parts_.pinned.take(bytes);
      std::memcpy(block.data, host.data<std::uint8_t>(), bytes);
      check(cudaMemcpyAsync(tensor.data<std::uint8_t>(), block.data, bytes, cudaMemcpyHostToDevice,
                            in_.get()),
            "cudaMemcpyAsync");
      auto copied = std::make_shared<const Event>(parts_.events, in_.get());
      parts_.pinned.give_back(block, copied);
    }
    Event(parts_.events, in_.get()).hold(compute_);
    return tensor;
  }

 private:
  void make_current() const { check(cudaSetDevice(parts_.device.ordinal()), "cudaSetDevice"); }

  const StagingParts parts_;
  const cudaStream_t compute_;
  Stream out_, in_;
};

}  // namespace

std::unique_ptr<Staging> make_staging(const StagingParts& parts) {
  return std::make_unique<CudaStaging>(parts);
}

}  // namespace ringside::cuda
