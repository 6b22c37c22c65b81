#include "core/device/cuda/runtime/uploads.h"

#include <optional>

#include "core/base/error.h"
#include "core/device/cuda/runtime/check.h"

namespace ringside::cuda {

class Uploads::CudaUpload final : public Upload {
 public:
  CudaUpload(Uploads& uploads, Event free) : uploads_(uploads), free_(std::move(free)) {}

  ~CudaUpload() override {
    try {
      finish();
    } catch (const Error&) {
      // The context is broken: nothing is copied any more.
    }
  }

  void write(const Tensor& to, std::span<const std::byte> from) override {
    // Waits for compute only now, so that an upload without writes delays no other upload.
    if (free_) free_->hold(uploads_.stream_.get());
    free_.reset();
    is_under_way_ = true;
    uploads_.transfers_.write(to, from);
  }

  void finish() override {
    if (!is_under_way_) return;
    is_under_way_ = false;
    check(cudaSetDevice(uploads_.ordinal_), "cudaSetDevice");
    Event(uploads_.events_, uploads_.stream_.get()).hold(uploads_.compute_);
  }

 private:
  Uploads& uploads_;
  /// Reached when compute no longer uses the memory; empty once the stream waits for it.
  std::optional<Event> free_;
  bool is_under_way_ = false;
};

Uploads::Uploads(int ordinal, EventPool& events, PinnedCache& pinned, Waits& waits,
                 cudaStream_t compute)
    : ordinal_(ordinal),
      events_(events),
      compute_(compute),
      transfers_(ordinal, events, pinned, waits, stream_.get()) {}

std::unique_ptr<Upload> Uploads::make() {
  check(cudaSetDevice(ordinal_), "cudaSetDevice");
  return std::make_unique<CudaUpload>(*this, Event(events_, compute_));
}

}  // namespace ringside::cuda
