// The tasks of a stream, and the thread that does them.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>

#include "cuda_runtime.h"

namespace cuda_on_host {

/// Threads share nothing but this, so that ThreadSanitizer sees what no event orders.
class Queue {
 public:
  explicit Queue(int device) : device(device) {}
  void push(std::function<void()> task);
  /// Whether all has been done.
  bool is_idle();
  /// Until all that is there now has been done.
  void wait();
  /// run() returns when it has done what is there.
  void close();
  /// The thread's life.
  void run();

  const int device;

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> tasks_;
  std::int64_t pushed_ = 0, done_ = 0;
  bool is_closed_ = false;
};

/// Until all streams of the device, or of all devices (-1), have done what they have.
void wait_for_device(int device);

}  // namespace cuda_on_host

struct CUstream_st {
  std::shared_ptr<cuda_on_host::Queue> queue;
};
