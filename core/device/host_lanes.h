// HostLanes: the lanes of a host side, on any kind of thread or simulated processor.
#pragma once

#include <array>
#include <deque>
#include <functional>
#include <memory>
#include <string>

#include "core/device/host_side.h"

namespace ringside {

/// The waits of lanes and their users for each other: as threads or as actors of a simulated world.
class LaneWaits {
 public:
  virtual ~LaneWaits() = default;
  /// Blocks the caller until `over()` is true. Calls of over() and change() exclude each other.
  virtual void until(const std::function<bool()>& over) = 0;
  /// Does `what`, then makes every waiting lane and user test its condition again.
  virtual void change(const std::function<void()>& what) = 0;
  virtual double now() const = 0;
};

/// Queues of requests, and the loop that serves one.
class HostLanes {
 public:
  enum Lane : std::size_t { to_host, compute, to_device };
  static constexpr std::size_t lanes = 3;

  /// A request: what its lane does once `after` is over.
  struct Request {
    std::function<void()> work;
    std::shared_ptr<Request> after;
    bool over = false;
    std::string error;
    HostTask::Span span;
  };
  using RequestPtr = std::shared_ptr<Request>;

  explicit HostLanes(std::unique_ptr<LaneWaits> waits) : waits_(std::move(waits)) {}

  RequestPtr submit(Lane lane, std::function<void()> work, RequestPtr after);
  /// Blocks until the request is over. Throws Error if the request failed.
  void wait(const Request& request);
  /// Serves a lane until end() has been called and nothing is left. Blocks.
  void serve(Lane lane);
  void end();
  /// Drops the requests that no lane has begun, without waking a waiter. Lanes end at their next
  /// test.
  void abandon();
  double busy_s() const;

 private:
  std::unique_ptr<LaneWaits> waits_;
  std::array<std::deque<RequestPtr>, lanes> queues_;
  bool ending_ = false;
  double busy_s_ = 0;
};

/// A request as its maker sees it. `arrive` is done once, by the first wait() after the request is
/// over.
class LaneTask final : public HostTask {
 public:
  LaneTask(HostLanes& lanes, HostLanes::RequestPtr request, std::function<void()> arrive = {})
      : lanes_(lanes), request_(std::move(request)), arrive_(std::move(arrive)) {}
  void wait() override;
  Span span() const override { return request_->span; }

  /// The request of a task that this host side has made; null for none.
  static HostLanes::RequestPtr request_of(const HostTaskPtr& task) {
    return task ? static_cast<const LaneTask&>(*task).request_ : nullptr;
  }

 private:
  HostLanes& lanes_;
  HostLanes::RequestPtr request_;
  std::function<void()> arrive_;
};

}  // namespace ringside
