// The host side of a real device: each lane is a thread.
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "core/device/host_lanes.h"

namespace ringside {
namespace {

class ThreadWaits final : public LaneWaits {
 public:
  explicit ThreadWaits(const Clock& clock) : clock_(clock) {}

  void until(const std::function<bool()>& over) override {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, over);
  }
  void change(const std::function<void()>& what) override {
    {
      const std::lock_guard lock(mutex_);
      what();
    }
    changed_.notify_all();
  }
  double now() const override { return clock_.now(); }

 private:
  const Clock& clock_;
  std::mutex mutex_;
  std::condition_variable changed_;
};

std::span<std::byte> bytes_of(const Tensor& host) {
  return {reinterpret_cast<std::byte*>(host.data<std::uint8_t>()), host.bytes()};
}

class ThreadedHostSide final : public HostSide {
 public:
  ThreadedHostSide(Device& device, std::unique_ptr<Device> host)
      : device_(device),
        host_(std::move(host)),
        staging_(device.staging()),
        lanes_(std::make_unique<ThreadWaits>(device.clock())) {
    for (const auto lane : {HostLanes::to_host, HostLanes::compute, HostLanes::to_device})
      threads_.emplace_back([this, lane] { lanes_.serve(lane); });
  }
  ~ThreadedHostSide() override {
    lanes_.end();
    for (std::thread& thread : threads_) thread.join();
  }
  ThreadedHostSide(const ThreadedHostSide&) = delete;
  ThreadedHostSide& operator=(const ThreadedHostSide&) = delete;

  Device& device() override { return *host_; }

  HostTaskPtr fetch(const Tensor& from, const Tensor& to) override {
    if (!staging_)
      return task(HostLanes::to_host, [this, from, to] { device_.read(from, bytes_of(to)); }, {});
    const std::shared_ptr<Outgoing> copy = staging_->out(from);
    return task(HostLanes::to_host,
                [copy, to] {
                  copy->wait();
                  const auto arrived = bytes_of(copy->host());
                  if (!arrived.empty())
                    std::memcpy(bytes_of(to).data(), arrived.data(), arrived.size());
                },
                {});
  }

  HostTaskPtr run(std::function<void()> work, HostTaskPtr after) override {
    return task(HostLanes::compute, std::move(work), after);
  }

  HostTaskPtr store(const Tensor& from, const Tensor& to, HostTaskPtr after) override {
    const std::shared_ptr<Upload> upload = device_.upload();
    if (!upload)
      return task(
          HostLanes::to_device, [this, from, to] { device_.write(to, bytes_of(from)); }, after);
    return task(
        HostLanes::to_device, [upload, from, to] { upload->write(to, bytes_of(from)); }, after,
        [upload] { upload->finish(); });
  }

  double busy_s() const override { return lanes_.busy_s(); }

 private:
  HostTaskPtr task(HostLanes::Lane lane, std::function<void()> work, const HostTaskPtr& after,
                   std::function<void()> arrive = {}) {
    return std::make_shared<LaneTask>(
        lanes_, lanes_.submit(lane, std::move(work), LaneTask::request_of(after)),
        std::move(arrive));
  }

  Device& device_;
  std::unique_ptr<Device> host_;
  std::unique_ptr<Staging> staging_;  // null if the host reads the device's memory itself
  HostLanes lanes_;
  std::vector<std::thread> threads_;
};

}  // namespace

std::unique_ptr<HostSide> make_host_side(Device& device, std::unique_ptr<Device> host) {
  return std::make_unique<ThreadedHostSide>(device, std::move(host));
}

}  // namespace ringside
