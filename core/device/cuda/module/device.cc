// The GPU as a device.
#include <nvtx3/nvToolsExt.h>

#include "core/base/error.h"
#include "core/device/cuda/cuda_module.h"
#include "core/device/cuda/kernels/kernels.h"
#include "core/device/cuda/module/look.h"
#include "core/device/cuda/runtime/check.h"
#include "core/device/cuda/runtime/cuda_staging.h"
#include "core/device/cuda/runtime/marks.h"
#include "core/device/cuda/runtime/memory_pool.h"
#include "core/device/cuda/runtime/pinned.h"
#include "core/device/cuda/runtime/stream.h"
#include "core/device/cuda/runtime/transfers.h"
#include "core/device/cuda/runtime/uploads.h"
#include "core/device/cuda/runtime/waits.h"

namespace ringside::cuda {
namespace {

/// Sets the current device of the calling thread. CUDA makes streams, events and pinned memory on
/// that device.
void make_current(int ordinal) { check(cudaSetDevice(ordinal), "cudaSetDevice"); }

int made_current(int ordinal) {
  make_current(ordinal);
  return ordinal;
}

class GpuDevice final : public CudaDevice {
 public:
  explicit GpuDevice(const Options& options)
      : gpu_(look_at_gpu(options.ordinal)), ordinal_(made_current(options.ordinal)) {
    kernels_ =
        make_kernels({*this, compute_.get(), gpu_.multiprocessors, gpu_.major, options.tf32});
  }

  ~GpuDevice() override {
    kernels_ = {};
    // Enqueued work may still use the members that are destroyed here. It is enough to wait for
    // the compute stream, because that stream itself waits for all unfinished copies.
    try {
      make_current(ordinal_);
      marks_.synchronize();
    } catch (const Error&) {
      // The context is broken: nothing runs any more.
    }
  }

  std::shared_ptr<Buffer> allocate(std::size_t bytes, MemoryKind kind) override {
    return allocate_on(compute_.get(), bytes, kind);
  }

  std::shared_ptr<Buffer> adopt(std::byte* data, std::size_t bytes, MemoryKind kind,
                                std::function<void()> release) override {
    return std::make_shared<Buffer>(data, bytes, kind, SymmetricAddress{}, std::move(release));
  }

  const Kernels& kernels() const override { return kernels_; }

  Mark mark() override { return mark_on(compute_.get()); }
  double time(const Mark& mark) override { return marks_.time(mark); }
  void synchronize() override {
    make_current(ordinal_);
    marks_.synchronize();
  }

  void write(const Tensor& to, std::span<const std::byte> from) override {
    transfers_.write(to, from);
  }
  void read(const Tensor& from, std::span<std::byte> to) override { transfers_.read(from, to); }

  const Clock& clock() const override { return marks_.clock(); }

  std::unique_ptr<Staging> staging() override {
    make_current(ordinal_);
    return make_staging(
        {*this, events_, pinned_, waits_, [this](std::size_t bytes, cudaStream_t stream) {
           return allocate_on(stream, bytes, MemoryKind::communication);
         }});
  }

  std::unique_ptr<Upload> upload() override { return uploads_.make(); }

  std::optional<DeviceMemory> memory() const override {
    const auto [free, total] = free_and_total();
    return DeviceMemory{pool_.most_reserved(), total - free - pool_.reserved(), total};
  }

  void begin_range(const std::string& name) override { nvtxRangePushA(name.c_str()); }
  void end_range() override { nvtxRangePop(); }

  int ordinal() const override { return ordinal_; }
  void* compute_stream() const override { return compute_.get(); }
  Mark mark_on(void* stream) override {
    make_current(ordinal_);
    return marks_.record(static_cast<cudaStream_t>(stream));
  }
  void wait_on(void* stream, const Mark& mark) override {
    marks_.hold(static_cast<cudaStream_t>(stream), mark);
  }
  bool reached(const Mark& mark) override { return marks_.reached(mark); }
  void watch(Watch& watch) override { waits_.watch(watch); }
  void unwatch(Watch& watch) override { waits_.unwatch(watch); }

 private:
  /// Allocates memory, whose first use must be on `stream`. The memory becomes free when the
  /// compute stream has done all work that was enqueued on it before the buffer was released.
  std::shared_ptr<Buffer> allocate_on(cudaStream_t stream, std::size_t bytes, MemoryKind kind) {
    make_current(ordinal_);
    std::byte* data = pool_.allocate(bytes, stream);
    if (!data) {
      // Enqueued work may still use memory that was released, or the free memory is fragmented.
      marks_.synchronize();
      pool_.trim();
      data = pool_.allocate(bytes, stream);
    }
    if (!data) throw no_memory(bytes, kind);
    ledger().add(kind, bytes);
    auto release = [this, data, bytes, kind] {
      pool_.free(data, compute_.get());
      ledger().remove(kind, bytes);
    };
    return std::make_shared<Buffer>(data, bytes, kind, SymmetricAddress{}, std::move(release));
  }

  Error no_memory(std::size_t bytes, MemoryKind kind) const {
    const auto [free, total] = free_and_total();
    return out_of_memory(
        place(), bytes, kind, ledger().current(),
        fmt::format("{} has {} free of {}", gpu_.name, memory_text(static_cast<double>(free)),
                    memory_text(static_cast<double>(total))));
  }

  /// Free and total bytes of the GPU, as the driver counts them for all its users.
  std::pair<std::int64_t, std::int64_t> free_and_total() const {
    make_current(ordinal_);
    std::size_t free = 0, total = 0;
    check(cudaMemGetInfo(&free, &total), "cudaMemGetInfo");
    return {static_cast<std::int64_t>(free), static_cast<std::int64_t>(total)};
  }

  std::string place() const { return fmt::format("gpu {}", ordinal_); }

  const Gpu gpu_;
  const int ordinal_;
  MemoryPool pool_{ordinal_};
  EventPool timed_events_{cudaEventDefault};
  EventPool events_{cudaEventDisableTiming};
  PinnedCache pinned_;
  Stream compute_;
  Waits waits_;
  Marks marks_{timed_events_, waits_, compute_.get()};
  Transfers transfers_{ordinal_, events_, pinned_, waits_, compute_.get()};
  Uploads uploads_{ordinal_, events_, pinned_, waits_, compute_.get()};
  Kernels kernels_;
};

}  // namespace
}  // namespace ringside::cuda

extern "C" void ringside_module(ringside::ModuleExports* exports) {
  using namespace ringside::cuda;
  static const CudaModule functions{
      .look = look, .make = [](const Options& options) -> std::unique_ptr<CudaDevice> {
        return std::make_unique<GpuDevice>(options);
      }};
  exports->functions = &functions;
  exports->stamp = ringside::module_stamp;
}
