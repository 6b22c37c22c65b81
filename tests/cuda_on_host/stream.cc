// Streams and events: a stream is a thread that does its tasks in order, an event marks a point
// between two tasks.
#include "tests/cuda_on_host/stream.h"

#include <chrono>
#include <set>
#include <thread>
#include <vector>

#include "tests/cuda_on_host/driver.h"
#include "tests/cuda_on_host/memory.h"
#include "tests/cuda_on_host/queue.h"

namespace cuda_on_host {
namespace {

using Clock = std::chrono::steady_clock;

// The point that one call of cudaEventRecord() marks.
class Moment {
 public:
  void reach() {
    const std::lock_guard lock(mutex_);
    time_ = Clock::now();
    is_reached_ = true;
    reached_.notify_all();
  }
  bool is_reached() {
    const std::lock_guard lock(mutex_);
    return is_reached_;
  }
  void wait() {
    std::unique_lock lock(mutex_);
    reached_.wait(lock, [this] { return is_reached_; });
  }
  // Call this only after the point is reached; from then on the time does not change.
  Clock::time_point time() const { return time_; }

 private:
  std::mutex mutex_;
  std::condition_variable reached_;
  bool is_reached_ = false;
  Clock::time_point time_;
};

struct Streams {
  std::mutex mutex;
  std::set<std::shared_ptr<Queue>> open;
};

Streams& streams() {
  static auto& streams = *new Streams;  // outlives threads that are not joined
  return streams;
}

}  // namespace

void Queue::push(std::function<void()> task) {
  const std::lock_guard lock(mutex_);
  tasks_.push_back(std::move(task));
  ++pushed_;
  changed_.notify_all();
}

void Queue::close() {
  const std::lock_guard lock(mutex_);
  is_closed_ = true;
  changed_.notify_all();
}

bool Queue::is_idle() {
  const std::lock_guard lock(mutex_);
  return done_ == pushed_;
}

void Queue::wait() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this, end = pushed_] { return done_ >= end; });
}

void Queue::run() {
  become_stream_thread();
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return is_closed_ || !tasks_.empty(); });
    if (tasks_.empty()) return;
    auto task = std::move(tasks_.front());
    tasks_.pop_front();
    lock.unlock();
    task();
    task = nullptr;  // destroys the objects of the task before the task counts as done
    lock.lock();
    ++done_;
    changed_.notify_all();
  }
}

void wait_for_device(int device) {
  std::vector<std::shared_ptr<Queue>> queues;
  {
    const std::lock_guard lock(streams().mutex);
    for (const auto& queue : streams().open)
      if (device < 0 || queue->device == device) queues.push_back(queue);
  }
  for (const auto& queue : queues) queue->wait();
}

}  // namespace cuda_on_host

using namespace cuda_on_host;

struct CUevent_st {
  const int device;
  const bool has_time;
  std::mutex mutex;
  std::shared_ptr<Moment> last;  // null: never recorded

  std::shared_ptr<Moment> moment() {
    const std::lock_guard lock(mutex);
    return last;
  }
};

void enqueue(cudaStream_t stream, std::function<void()> task) {
  if (!stream) fail("a task without a stream");
  stream->queue->push(std::move(task));
}

cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned flags, int priority) {
  return call(__func__, [&] {
    if (!stream || flags > cudaStreamNonBlocking || priority < -5 || priority > 0)
      return cudaErrorInvalidValue;
    auto queue = std::make_shared<Queue>(current_device());
    {
      const std::lock_guard lock(streams().mutex);
      streams().open.insert(queue);
    }
    std::thread([queue] { queue->run(); }).detach();
    *stream = new CUstream_st{std::move(queue)};
    count(driver().streams);
    return cudaSuccess;
  });
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) {
  return call(__func__, [&] { return cudaStreamCreateWithPriority(stream, flags, 0); });
}

// Like CUDA's function, does not wait: the stream's thread still does the tasks already enqueued.
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  return call(__func__, [&] {
    if (!stream) return cudaErrorInvalidResourceHandle;
    {
      const std::lock_guard lock(streams().mutex);
      streams().open.erase(stream->queue);
    }
    stream->queue->close();
    delete stream;
    return cudaSuccess;
  });
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  return call(__func__, [&] {
    if (!stream) return cudaErrorInvalidResourceHandle;
    count(driver().host_waits);
    stream->queue->wait();
    trim_pools_to_thresholds();
    return cudaSuccess;
  });
}

cudaError_t cudaStreamQuery(cudaStream_t stream) {
  return call(__func__, [&] {
    if (!stream) return cudaErrorInvalidResourceHandle;
    return stream->queue->is_idle() ? cudaSuccess : cudaErrorNotReady;
  });
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags) {
  return call(__func__, [&] {
    if (!stream || !event) return cudaErrorInvalidResourceHandle;
    if (flags != 0) return cudaErrorInvalidValue;
    if (auto moment = event->moment()) enqueue(stream, [moment] { moment->wait(); });
    return cudaSuccess;
  });
}

cudaError_t cudaDeviceSynchronize() {
  return call(__func__, [&] {
    count(driver().host_waits);
    wait_for_device(current_device());
    trim_pools_to_thresholds();
    return cudaSuccess;
  });
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
  return call(__func__, [&] {
    if (!event || flags > (cudaEventBlockingSync | cudaEventDisableTiming))
      return cudaErrorInvalidValue;
    *event = new CUevent_st{current_device(), (flags & cudaEventDisableTiming) == 0, {}, {}};
    count(driver().events);
    return cudaSuccess;
  });
}

cudaError_t cudaEventDestroy(cudaEvent_t event) {
  return call(__func__, [&] {
    if (!event) return cudaErrorInvalidResourceHandle;
    delete event;
    return cudaSuccess;
  });
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  return call(__func__, [&] {
    if (!event || !stream || event->device != stream->queue->device)
      return cudaErrorInvalidResourceHandle;
    auto moment = std::make_shared<Moment>();
    const std::lock_guard lock(event->mutex);
    event->last = moment;
    enqueue(stream, [moment] { moment->reach(); });
    return cudaSuccess;
  });
}

cudaError_t cudaEventQuery(cudaEvent_t event) {
  return call(__func__, [&] {
    if (!event) return cudaErrorInvalidResourceHandle;
    const auto moment = event->moment();
    return !moment || moment->is_reached() ? cudaSuccess : cudaErrorNotReady;
  });
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  return call(__func__, [&] {
    if (!event) return cudaErrorInvalidResourceHandle;
    count(driver().host_waits);
    if (const auto moment = event->moment()) moment->wait();
    trim_pools_to_thresholds();
    return cudaSuccess;
  });
}

cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t start, cudaEvent_t end) {
  return call(__func__, [&] {
    if (!milliseconds) return cudaErrorInvalidValue;
    if (!start || !end || !start->has_time || !end->has_time || start->device != end->device)
      return cudaErrorInvalidResourceHandle;
    const auto from = start->moment(), to = end->moment();
    if (!from || !to) return cudaErrorInvalidResourceHandle;
    if (!from->is_reached() || !to->is_reached()) return cudaErrorNotReady;
    *milliseconds = std::chrono::duration<float, std::milli>(to->time() - from->time()).count();
    return cudaSuccess;
  });
}

cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void* data) {
  return call(__func__, [&] {
    if (!stream) return cudaErrorInvalidResourceHandle;
    if (!function) return cudaErrorInvalidValue;
    enqueue(stream, [function, data] { function(data); });
    return cudaSuccess;
  });
}
