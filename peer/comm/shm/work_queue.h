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
/// queued operations itself while no other thread runs one.
class WorkQueue {
 public:
  explicit WorkQueue(Device& device) : device_(device) {}
  /// Runs the operations that are left.
  ~WorkQueue();

  /// Queues an operation. The work's wait() throws Error with the text of what `run` threw.
  WorkPtr submit(std::function<void()> run);
  /// Runs an operation in its turn, on the calling thread: no thread has to be woken, which takes
  /// longer than a small operation. Throws what `operation` throws.
  template <class Body>
  void run(const Body& operation) {
    const Turn turn(*this);
    operation();
  }

 private:
  struct Operation {
    std::function<void()> run;
    Work::Span span;
    bool done = false;
    std::string error;
  };
  using OperationPtr = std::shared_ptr<Operation>;
  class QueuedWork;

  /// Holds the queue for the calling thread, from when all operations before are over.
  class Turn {
   public:
    explicit Turn(WorkQueue& queue);
    ~Turn();

   private:
    WorkQueue& queue_;
  };

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
