// Operations that run one after the other, beside the thread that submits them.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "core/comm/communicator.h"

namespace ringside::peer {

/// Runs operations in order, on a thread of its own. A thread that waits for an operation runs the
/// queued operations itself while no other thread runs one. If a caller
/// waits for each operation at once, this saves two wake-ups for each: that of the queue's thread
/// at the start and that of the caller at the end.
class WorkQueue {
 public:
  explicit WorkQueue(Device& device) : device_(device) {}
  /// Runs the operations that are left.
  ~WorkQueue();

  /// Queues an operation. The work's wait() throws Error with the text of what `run` threw.
  WorkPtr submit(std::function<void()> run);
  /// Runs an operation in its turn; returns when it is done.
  void run(std::function<void()> run);

 private:
  struct Operation {
    std::function<void()> run;
    Work::Span span;
    bool done = false;
    std::string error;
  };
  using OperationPtr = std::shared_ptr<Operation>;
  class QueuedWork;

  OperationPtr push(std::function<void()> run);
  void wait(const OperationPtr& operation);
  /// Runs the first operation; `lock` is released meanwhile.
  void run_first(std::unique_lock<std::mutex>& lock);
  void work();

  Device& device_;
  std::mutex mutex_;
  std::condition_variable changed_;  // there is work and no thread runs it, or the queue ends
  std::condition_variable finished_;
  std::deque<OperationPtr> queue_;
  bool busy_ = false;
  bool ending_ = false;
  std::thread thread_;  // started by the first submit()
};

}  // namespace ringside::peer
