// A CPU device that behaves as if the host did not share its memory. A test says when copies
// arrive.
#pragma once

#include <atomic>
#include <cstring>
#include <mutex>
#include <vector>

#include "core/device/cpu/cpu_device.h"

namespace ringside::testing {

/// Values lie in the device's memory with their bits changed by `scramble`, so that code that
/// bypasses read(), write() and staging sees wrong values. Kernels bypass them too; tests that
/// compute set `scramble` to 0. A copy to the host is made at the moment when it arrives, no
/// earlier. Thread-safe.
class StagedDevice : public Device {
 public:
  /// A copy to the host arrives at the `asks`-th call of its ready(); with `asks` 0 no number of
  /// calls is enough. A copy also arrives when the test calls finish() or a caller blocks in
  /// wait().
  explicit StagedDevice(int asks, std::uint8_t scramble = 0x5a)
      : asks_(asks), scramble_(scramble) {}

  /// Lets copy number `index` arrive; copies are numbered from 0 in the order in which they began.
  void finish(std::size_t index) {
    std::lock_guard lock(state_->mutex);
    state_->outgoing.at(index).finished = true;
  }
  /// copies_out(): the copies to the host that were begun. copies_in(): the copies to the device.
  /// waits(): how often a caller blocked until a copy to the host arrived.
  std::size_t copies_out() const {
    std::lock_guard lock(state_->mutex);
    return state_->outgoing.size();
  }
  int copies_in() const { return state_->in; }
  int waits() const { return state_->waits; }
  /// The number of host buffers that are still held.
  int host_buffers() const { return state_->host_buffers; }

  std::shared_ptr<Buffer> allocate(std::size_t bytes, MemoryKind kind) override {
    auto inner = cpu_->allocate(bytes, kind);
    ledger().add(kind, bytes);
    return std::make_shared<Buffer>(inner->data(), bytes, kind, SymmetricAddress{},
                                    [this, inner, kind, bytes] { ledger().remove(kind, bytes); });
  }
  std::shared_ptr<Buffer> adopt(std::byte* data, std::size_t bytes, MemoryKind kind,
                                std::function<void()> release) override {
    return std::make_shared<Buffer>(data, bytes, kind, SymmetricAddress{}, std::move(release));
  }
  const Kernels& kernels() const override { return cpu_->kernels(); }
  Mark mark() override { return cpu_->mark(); }
  double time(const Mark& mark) override { return cpu_->time(mark); }
  void synchronize() override {}
  void write(const Tensor& to, std::span<const std::byte> from) override {
    move(from.data(), bytes_of(to), from.size());
  }
  void read(const Tensor& from, std::span<std::byte> to) override {
    move(bytes_of(from), to.data(), to.size());
  }
  const Clock& clock() const override { return cpu_->clock(); }
  std::unique_ptr<Staging> staging() override { return std::make_unique<Copies>(*this); }

 private:
  struct Copy {
    int asked = 0;
    bool finished = false;
  };
  struct State {
    std::mutex mutex;
    std::vector<Copy> outgoing;
    std::atomic<int> in = 0, waits = 0, host_buffers = 0;
  };

  class Out : public Outgoing {
   public:
    Out(StagedDevice& device, std::size_t index, const Tensor& from)
        : device_(device), index_(index), from_(from), host_(device.host_tensor(from)) {}
    bool ready() override {
      if (!from_) return true;
      {
        std::lock_guard lock(device_.state_->mutex);
        Copy& copy = device_.state_->outgoing[index_];
        if (++copy.asked == device_.asks_) copy.finished = true;
        if (!copy.finished) return false;
      }
      device_.read(from_, {bytes_of(host_), host_.bytes()});
      from_ = {};
      return true;
    }
    void wait() override {
      if (ready()) return;
      ++device_.state_->waits;
      device_.finish(index_);
      ready();
    }
    const Tensor& host() const override { return host_; }

   private:
    StagedDevice& device_;
    std::size_t index_;
    Tensor from_, host_;
  };

  class Copies : public Staging {
   public:
    explicit Copies(StagedDevice& device) : device_(device) {}
    std::unique_ptr<Outgoing> out(const Tensor& tensor) override {
      std::size_t index = 0;
      {
        std::lock_guard lock(device_.state_->mutex);
        index = device_.state_->outgoing.size();
        device_.state_->outgoing.emplace_back();
      }
      return std::make_unique<Out>(device_, index, tensor);
    }
    Tensor in(const Tensor& host) override {
      ++device_.state_->in;
      const Tensor to = device_.tensor(host.shape(), MemoryKind::communication, host.dtype());
      device_.write(to, {bytes_of(host), host.bytes()});
      return to;
    }

   private:
    StagedDevice& device_;
  };

  static std::byte* bytes_of(const Tensor& tensor) {
    return reinterpret_cast<std::byte*>(tensor.data<std::uint8_t>());
  }
  /// A tensor in the host's memory; it holds no meaningful values before the copy has arrived.
  Tensor host_tensor(const Tensor& like) {
    auto memory = std::make_shared<std::vector<std::byte>>(like.bytes(), std::byte{0xee});
    ++state_->host_buffers;
    auto release = [memory, state = state_] { --state->host_buffers; };
    return {std::make_shared<Buffer>(memory->data(), like.bytes(), MemoryKind::communication,
                                     SymmetricAddress{}, std::move(release)),
            0, like.shape(), like.dtype()};
  }
  void move(const std::byte* from, std::byte* to, std::size_t count) const {
    for (std::size_t i = 0; i < count; ++i) to[i] = from[i] ^ std::byte{scramble_};
  }

  int asks_;
  std::uint8_t scramble_;
  std::unique_ptr<Device> cpu_ = make_cpu_device(1);
  std::shared_ptr<State> state_ = std::make_shared<State>();  // buffers may outlive the device
};

}  // namespace ringside::testing
