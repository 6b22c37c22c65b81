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

/// A queue of tasks. Two queues share no lock, so ThreadSanitizer reports it if two streams access
/// the same memory and no event puts the two accesses in order.
class Queue {
 public:
  explicit Queue(int device) : device(device) {}
  void push(std::function<void()> task);
  /// Whether all tasks have been done.
  bool is_idle();
  /// Blocks until all tasks that are queued now have been done.
  void wait();
  /// Makes run() return once it has done all queued tasks.
  void close();
  /// Does tasks until the queue is closed; the thread of the stream runs this.
  void run();

  const int device;

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> tasks_;
  std::int64_t pushed_ = 0, done_ = 0;
  bool is_closed_ = false;
};

/// Blocks until all streams of the device, or of all devices (-1), have done the tasks queued now.
void wait_for_device(int device);

}  // namespace cuda_on_host

struct CUstream_st {
  std::shared_ptr<cuda_on_host::Queue> queue;
};
