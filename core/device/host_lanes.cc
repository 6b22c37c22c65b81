#include "core/device/host_lanes.h"

#include <exception>
#include <utility>

#include "core/base/error.h"

namespace ringside {

HostLanes::RequestPtr HostLanes::submit(Lane lane, std::function<void()> work, RequestPtr after) {
  auto request = std::make_shared<Request>();
  request->work = std::move(work);
  request->after = std::move(after);
  waits_->change([&] { queues_[lane].push_back(request); });
  return request;
}

void HostLanes::wait(const Request& request) {
  waits_->until([&] { return request.over; });
  if (!request.error.empty()) throw Error("{}", request.error);
}

void HostLanes::serve(Lane lane) {
  for (;;) {
    RequestPtr request;
    waits_->until([&] {
      auto& queue = queues_[lane];
      if (queue.empty()) return ending_;
      request = std::move(queue.front());
      queue.pop_front();
      return true;
    });
    if (!request) return;
    std::string error;
    if (const RequestPtr after = std::exchange(request->after, nullptr)) {
      waits_->until([&] { return after->over; });
      error = after->error;
    }
    const double begin = waits_->now();
    try {
      if (error.empty()) request->work();
    } catch (const std::exception& thrown) {
      error = thrown.what();
    }
    request->work = nullptr;  // lets go of the tensors
    const double end = waits_->now();
    waits_->change([&] {
      request->over = true;
      request->error = std::move(error);
      request->span = {begin, end};
      if (lane == compute) busy_s_ += end - begin;
    });
  }
}

void HostLanes::end() {
  waits_->change([this] { ending_ = true; });
}

void HostLanes::abandon() {
  ending_ = true;
  for (auto& queue : queues_) queue.clear();
}

double HostLanes::busy_s() const {
  double seconds = 0;
  waits_->until([&] {
    seconds = busy_s_;
    return true;
  });
  return seconds;
}

void LaneTask::wait() {
  lanes_.wait(*request_);
  if (arrive_) std::exchange(arrive_, {})();
}

}  // namespace ringside
